package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type comparison struct {
	old, current *Document
	// What was found: changes that break, and others.
	changes, additions, deprecations []string

	request bool
	seen    map[string]bool
}

// operation compares a hook version with what it was, nil if it is new.
func (c *comparison) operation(path string, was, is *Operation) {
	if was == nil {
		c.additions = append(c.additions, path+": the hook version was added")
		return
	}
	if is.Deprecated && !was.Deprecated {
		message := path + ": the hook version was deprecated"
		if is.Lifecycle != nil && is.Lifecycle.Replacement != "" {
			message += "; move to " + is.Lifecycle.Replacement
		}
		c.deprecations = append(c.deprecations, message)
	}
	// x-lifecycle is in each document of ours: one without it tells nothing of x-blocking.
	switch told := was.Lifecycle != nil && is.Lifecycle != nil; {
	case told && was.Blocking && !is.Blocking:
		c.reportf(path, "the hook no longer blocks its caller")
	case told && !was.Blocking && is.Blocking:
		c.reportf(path, "the hook, which did not block its caller, now does")
	}
	const media = "application/json"
	c.request = true
	c.schema(path+" request", was.RequestBody.Content[media].Schema, is.RequestBody.Content[media].Schema)
	c.request = false
	c.schema(path+" response", was.Responses["200"].Content[media].Schema, is.Responses["200"].Content[media].Schema)
}

func (c *comparison) reportf(where, format string, args ...any) {
	c.changes = append(c.changes, where+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) schema(where string, was, is *Schema) {
	if was == nil || is == nil {
		if was != is {
			c.reportf(where, "the schema was added or removed")
		}
		return
	}
	// The description of a reference wraps it and changes nothing.
	was, is = unwrap(was), unwrap(is)
	if was.Ref != "" && is.Ref != "" {
		key := fmt.Sprintf("%t %s %s", c.request, was.Ref, is.Ref)
		if c.seen[key] {
			return
		}
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[key] = true
	}
	was, is = c.old.resolve(was), c.current.resolve(is)
	if was == nil || is == nil {
		c.reportf(where, "a reference leads nowhere")
		return
	}
	if old, now := c.old.kind(was), c.current.kind(is); old != now {
		c.reportf(where, "the type changed from %q to %q", old, now)
		return
	}
	for _, value := range was.Enum {
		// Without an enumeration any value may be; documents of others may have none.
		if len(is.Enum) > 0 && !slices.Contains(is.Enum, value) {
			c.reportf(where, "the value %q was removed", value)
		}
	}
	members, next := c.old.members(was), c.current.members(is)
	for i := range members {
		c.schema(where, members[i], next[i])
	}
	c.properties(where, was, is)
	if was.Items != nil || is.Items != nil {
		c.schema(where+"[]", was.Items, is.Items)
	}
	if was.AdditionalProperties != nil || is.AdditionalProperties != nil {
		c.schema(where+"{}", was.AdditionalProperties, is.AdditionalProperties)
	}
}

func (c *comparison) properties(where string, was, is *Schema) {
	for name, next := range is.Properties {
		switch former := was.Properties[name]; {
		case former == nil:
			c.additions = append(c.additions, where+"."+name+": the field was added")
		case next != nil && next.Deprecated && !former.Deprecated:
			c.deprecations = append(c.deprecations, where+"."+name+": the field was deprecated")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		next, ok := is.Properties[name]
		if !ok {
			c.reportf(where+"."+name, "the field was removed")
			continue
		}
		c.schema(where+"."+name, was.Properties[name], next)
	}
	for _, name := range is.Required {
		// Callers fill in requests, extensions fill in responses: an extension of
		// old does not know a field that became required in its response.
		if !c.request && !slices.Contains(was.Required, name) {
			c.reportf(where+"."+name, "the field of the response became required")
		}
	}
	for _, name := range was.Required {
		// And it may rely on a field that was required in its request.
		if c.request && !slices.Contains(is.Required, name) && is.Properties[name] != nil {
			c.reportf(where+"."+name, "the field of the request became optional")
		}
	}
}

func unwrap(s *Schema) *Schema {
	if len(s.AllOf) == 1 {
		return s.AllOf[0]
	}
	return s
}

// kind is type and format of a schema, and of what it is one of.
func (d *Document) kind(s *Schema) string {
	kind := d.plainKind(s)
	if len(s.OneOf) == 0 {
		return kind
	}
	var members []string
	for _, member := range d.members(s) {
		members = append(members, d.plainKind(member))
	}
	return strings.TrimSpace(kind + " one of " + strings.Join(members, ", "))
}

func (d *Document) plainKind(s *Schema) string {
	if s = d.resolve(s); s == nil {
		return "nothing"
	}
	return strings.Trim(s.Type+"/"+s.Format, "/")
}

// members are what s may be one of, in the order of their kinds.
func (d *Document) members(s *Schema) []*Schema {
	var members []*Schema
	for _, member := range s.OneOf {
		if member != nil {
			members = append(members, unwrap(member))
		}
	}
	slices.SortFunc(members, func(a, b *Schema) int {
		return cmp.Or(cmp.Compare(d.plainKind(a), d.plainKind(b)), cmp.Compare(a.Ref, b.Ref))
	})
	return members
}

func (d *Document) resolve(s *Schema) *Schema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[strings.TrimPrefix(s.Ref, refPrefix)]
}
