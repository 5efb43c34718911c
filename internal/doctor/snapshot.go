package doctor

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// Snapshot is what checks look at. The zero value is an empty management cluster.
type Snapshot struct {
	snapshot.Snapshot
	// Now is when it was taken.
	Now time.Time
	// Scope that it was taken of.
	Scope status.Scope
	// Plane of this machine; nil for any other management cluster.
	Plane *status.Plane
}

// Unread is a kind that the user may not read.
type Unread = snapshot.Unread

// Read takes a snapshot with the rights of the user behind c. What may not be read is in
// Snapshot.Unread; it is an error only when that is everything.
func Read(ctx context.Context, c client.Reader, scope status.Scope, now time.Time) (*Snapshot, error) {
	s, err := snapshot.Read(ctx, c, scope.Namespace,
		snapshot.Clusters, snapshot.Machines, snapshot.MachineHealthChecks, snapshot.HostClusters, snapshot.HostMachines, snapshot.HostMachinePools, snapshot.Hosts,
		snapshot.LifecycleRuns, snapshot.LifecyclePolicies, snapshot.ExtensionConfigs, snapshot.HostExtensionConfigs,
		snapshot.AgentReleases, snapshot.Requests, snapshot.Tokens, snapshot.Providers)
	if err != nil {
		return nil, err
	}
	return &Snapshot{Snapshot: *s, Now: now, Scope: scope}, nil
}

// OfHosts returns what the checks find on hosts, and on the machines that they serve as of the
// host, when nothing but Hosts, HostMachines and Machines is known.
func OfHosts(o *snapshot.Snapshot, now time.Time) []Finding {
	s := &Snapshot{Now: now}
	s.Hosts, s.HostMachines, s.Machines = o.Hosts, o.HostMachines, o.Machines
	// No check may conclude that there is no Cluster.
	s.Unread = []Unread{{Kind: "Cluster"}}
	found := Diagnose(s).Findings
	for i := range found {
		if found[i].Object.Kind != "HostMachine" {
			continue
		}
		if m := s.HostMachine(found[i].Object.Namespace, found[i].Object.Name); m != nil && m.Status.HostRef.Name != "" {
			found[i].Object = Object{APIVersion: found[i].Object.APIVersion, Kind: "Host", Namespace: m.Namespace, Name: m.Status.HostRef.Name}
		}
	}
	return found
}

// knows says whether the objects of a kind were read.
func (s *Snapshot) knows(kind string) bool {
	return !slices.ContainsFunc(s.Unread, func(u Unread) bool { return u.Kind == kind })
}

// shows says whether a finding is in scope: the labels are those of the Host, and of an object
// of a Cluster those of the Cluster. All other findings are shown: an ExtensionConfig, an
// AgentRelease or a token has no labels of theirs, and may hold any of them back.
func (s *Snapshot) shows(f Finding) bool {
	if s.Scope.Selector == nil || s.Scope.Selector.Empty() {
		return true
	}
	if f.Object.Kind == "Host" {
		if h := s.Host(f.Object.Namespace, f.Object.Name); h != nil {
			return s.Scope.Selector.Matches(labels.Set(h.Labels))
		}
	}
	if f.Cluster == "" {
		return true
	}
	c := s.Cluster(f.Object.Namespace, f.Cluster)
	return c != nil && s.Scope.Selector.Matches(labels.Set(c.Labels))
}
