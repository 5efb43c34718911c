package openapi

import (
	"maps"
	"slices"
)

// Difference is what one document changes against another. Each change begins with
// where it is: the path of the hook, request or response, and the field.
type Difference struct {
	// Breaking takes something from callers or extensions: rule #1 of the Runtime SDK
	// allows it only with a new version of the hook.
	Breaking []string `json:"breaking"`
	// Additions are hook versions and fields that are new.
	Additions []string `json:"additions"`
	// Deprecations are hook versions and fields whose end was announced.
	Deprecations []string `json:"deprecations"`
}

// Diff returns what current changes against old, each kind of change sorted. Each hook is compared
// through all schemas that its request and response refer to. Texts and examples don't count.
func Diff(old, current *Document) Difference {
	c := &comparison{old: old, current: current}
	for _, path := range slices.Sorted(maps.Keys(current.Paths)) {
		if now := current.Paths[path].Post; now != nil {
			c.operation(path, old.Paths[path].Post, now)
		}
	}
	for path, was := range old.Paths {
		if was.Post != nil && current.Paths[path].Post == nil {
			c.reportf(path, "the hook version was removed")
		}
	}
	return Difference{Breaking: sorted(c.changes), Additions: sorted(c.additions), Deprecations: sorted(c.deprecations)}
}

// sorted returns changes in order, each once, and never nil, which JSON shows as null.
func sorted(changes []string) []string {
	slices.Sort(changes)
	return append([]string{}, slices.Compact(changes)...)
}
