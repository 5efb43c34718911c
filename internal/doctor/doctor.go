package doctor

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Check looks for one failure pattern.
type Check struct {
	Layer Layer
	// Name of the pattern, one word.
	Name string
	// Effect of a finding on how its object is. The zero value is Trouble.
	Effect Effect
	// Means is what it is, and Remedy what mends it: docs/troubleshooting.md has both.
	Means, Remedy string

	find func(s *Snapshot) []Finding
}

// Effect is what a finding says about how its object is.
type Effect int

// The effects.
const (
	// Trouble is what does not work as it should: bad from a warning on.
	Trouble Effect = iota
	// Decision is what waits for a person, a window or an extension.
	Decision
	// Pause is what somebody paused: nothing is done there.
	Pause
	// Hold is what somebody keeps from being used.
	Hold
	// Remark says nothing of how the object is, unless it is a warning.
	Remark
)

// UnderWay are the conditions of a Cluster that are True while it changes, as it should.
var UnderWay = []string{clusterv1.ClusterRollingOutCondition, clusterv1.ClusterScalingUpCondition, clusterv1.ClusterScalingDownCondition, clusterv1.ClusterRemediatingCondition}

// Layer is where a check looks: what is wrong in one makes others fail that come after it. A number
// is added where checks of a layer follow from each other, too.
type Layer int

// The layers, in the order in which findings are told.
const (
	// Plane is the management cluster and its providers.
	Plane Layer = 100 * iota
	// Agent is a host and its agent.
	Agent
	// Enrollment is how an agent becomes a Host.
	Enrollment
	// Claim is what a machine does with its host.
	Claim
	// ControlPlane is the endpoint of a cluster.
	ControlPlane
	// Extension is what an extension or a policy holds back.
	Extension
	// Machines are the machines and the topology of a cluster.
	Machines
	// Housekeeping is what somebody wanted and may have forgotten.
	Housekeeping
)

// checks are in the order of their files.
var checks []Check

// register adds a check: its file has all there is of it.
func register(c Check) bool { //nolint:unparam // a variable of the package is initialised by it
	checks = append(checks, c)
	return true
}

// Checks are all failure patterns by layers and, in each, by names.
func Checks() []Check {
	return slices.SortedFunc(slices.Values(checks), func(a, b Check) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Name, b.Name))
	})
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
			f.Check, f.Remedy, f.effect = check.Name, check.Remedy, check.Effect
			report.Findings = append(report.Findings, f)
		}
	}
	for i := range s.Hosts {
		if s.Scope.Shows(&s.Hosts[i]) {
			report.hosts++
		}
	}
	for i := range s.Clusters {
		if s.Scope.Shows(&s.Clusters[i]) {
			report.clusters++
		}
	}
	order := []Severity{Error, Warning, Note}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return report
}
