package doctor

import (
	"cmp"
	"slices"
)

// Check looks for one failure pattern.
type Check struct {
	// Name of the pattern, one word.
	Name string
	// Means is what it is, and Remedy what mends it: docs/troubleshooting.md has both.
	Means, Remedy string

	find func(s *Snapshot) []Finding
}

// Checks are all failure patterns: first what others follow from.
func Checks() []Check {
	return []Check{
		planeNotReady, planeCrashed, planeUnsupervised, planeNotReached, providerUnavailable,
		clockSkewed, hostDisconnected, reportRefused, nodeIdentityChanged, recordLost, configurationNotAccepted, duplicateIdentity, agentVersionSkew, agentUpdateFailed,
		enrollmentRefused, enrollmentWaiting, tokenExpires, hostNotApproved,
		hostQuarantined, orphanedClaim, operationFailed, hostLost,
		addressContested, addressHeldTwice, addressNotHeld, endpointNotAnswering, certificateExpires,
		extensionNotDiscovered, extensionLeftAlone, hostHookWaits, lifecycleHookWaits, policyNotReady,
		noHostFits, controlPlaneFirst, ownerDeleting, topologyFailed, noNetworkPlugin, nodeNotReady, rolloutStopped, versionNotOffered, deletionStuck,
		moveHeldUp, blockMoveLeft, pausedForgotten, maintenanceForgotten, hooksDeprecated,
	}
}

// Diagnose applies all checks to a snapshot.
func Diagnose(s *Snapshot) Report {
	report := Report{Time: s.Now.UTC(), Findings: []Finding{}, Unread: s.Unread}
	for _, check := range Checks() {
		found := slices.DeleteFunc(check.find(s), func(f Finding) bool { return !s.shows(f) })
		slices.SortStableFunc(found, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name))
		})
		for _, f := range found {
			f.Check, f.Remedy = check.Name, check.Remedy
			report.Findings = append(report.Findings, f)
		}
	}
	order := []Severity{Error, Warning, Note}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return report
}
