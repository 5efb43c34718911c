package hook

import (
	"cmp"
	"fmt"
	"slices"
)

// Use is one handler that a registered extension serves.
type Use struct {
	// Handler is the qualified name "<handler>.<extensionConfig>".
	Handler string
	// Hook is the version the handler implements.
	Hook GroupVersionHook
}

// Severity grades a Finding.
type Severity string

const (
	// SeverityBlock means that the upgrade breaks the handler.
	SeverityBlock Severity = "Block"
	// SeverityWarn means that the handler works after the upgrade, but will not for ever.
	SeverityWarn Severity = "Warn"
)

// Finding is one thing to know before an upgrade.
type Finding struct {
	Use
	// Severity tells whether the upgrade has to wait.
	Severity Severity
	// Message says what is wrong and what to do.
	Message string
}

// CheckUpgrade reports which of the uses the target catalog, as of release,
// deprecates or no longer serves. Findings are ordered by severity, handler and
// hook. An empty release stands for the newest one.
func CheckUpgrade(target *Catalog, release string, uses []Use) []Finding {
	var findings []Finding
	for _, use := range uses {
		if f, found := checkUse(target, release, use); found {
			findings = append(findings, f)
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Handler, b.Handler),
			cmp.Compare(a.Hook.String(), b.Hook.String()))
	})
	return findings
}

func checkUse(target *Catalog, release string, use Use) (Finding, bool) {
	d := target.Get(use.Hook)
	if d == nil {
		message := fmt.Sprintf("handler %s implements %s, which the target does not know", use.Handler, use.Hook)
		if versions := target.Versions(use.Hook.GroupHook()); len(versions) > 0 {
			message += "; move it to " + versions[0].Name.Version + " first"
		}
		return Finding{Use: use, Severity: SeverityBlock, Message: message}, true
	}
	life := d.Meta.Lifecycle
	if !life.Removed.IsZero() && (release == "" || reached(life.Removed, release)) {
		remedy := "move it to " + life.Replacement + " first"
		if life.Replacement == "" {
			remedy = "nothing replaces it, take the handler out first"
		}
		return Finding{Use: use, Severity: SeverityBlock, Message: fmt.Sprintf(
			"handler %s implements %s, which %s removed; %s", use.Handler, use.Hook, life.Removed.Version, remedy)}, true
	}
	if d.Meta.Deprecated() && (release == "" || reached(life.Deprecated, release)) {
		return Finding{Use: use, Severity: SeverityWarn, Message: fmt.Sprintf(
			"handler %s implements %s, deprecated since %s; %s",
			use.Handler, use.Hook, life.Deprecated.Version, life.Advice())}, true
	}
	return Finding{}, false
}
