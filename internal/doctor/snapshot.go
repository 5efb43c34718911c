package doctor

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/snapshot"
)

// Snapshot is what checks look at. The zero value is an empty management cluster.
type Snapshot struct {
	snapshot.Snapshot
	// Now is when it was taken.
	Now time.Time
	// Scope that it was taken of.
	Scope snapshot.Scope
	// Plane of this machine; nil for any other management cluster.
	Plane *snapshot.Plane
}

// Unread is a kind that the user may not read.
type Unread = snapshot.Unread

// fleet are the kinds from which the states of hosts, machines and clusters follow.
var fleet = []snapshot.Kind{
	snapshot.Clusters, snapshot.Machines, snapshot.MachineHealthChecks, snapshot.HostClusters, snapshot.HostMachines, snapshot.HostMachinePools, snapshot.Hosts,
	snapshot.LifecycleRuns, snapshot.LifecyclePolicies,
}

// Around are the kinds around hosts and clusters in which checks find something, but for Secrets.
var Around = []snapshot.Kind{snapshot.ExtensionConfigs, snapshot.HostExtensionConfigs, snapshot.AgentReleases, snapshot.Requests, snapshot.Providers}

// Read takes a snapshot with the rights of the user behind c. What may not be read is in
// Snapshot.Unread; it is an error only when that is everything.
func Read(ctx context.Context, c client.Reader, scope snapshot.Scope, now time.Time) (*Snapshot, error) {
	s, err := snapshot.Read(ctx, c, scope.Namespace, slices.Concat(fleet, Around, []snapshot.Kind{snapshot.Tokens})...)
	if err != nil {
		return nil, err
	}
	return &Snapshot{Snapshot: *s, Now: now, Scope: scope}, nil
}

// ReadFleet takes a snapshot of what the states of hosts, machines and clusters follow from, and of
// more kinds: less than Read, with the same findings about them. Kinds that are needed and may not be
// read are an error; all others are in Snapshot.Unread.
func ReadFleet(ctx context.Context, c client.Reader, scope snapshot.Scope, now time.Time, more, needed []snapshot.Kind) (*Snapshot, error) {
	s := &Snapshot{Now: now, Scope: scope}
	if err := s.Add(ctx, c, scope.Namespace, append(slices.Clip(fleet), more...)...); err != nil {
		return nil, err
	}
	if err := s.Refused(needed...); err != nil {
		return nil, err
	}
	return s, nil
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
