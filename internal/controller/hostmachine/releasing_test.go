package hostmachine

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// claimedHost is one that the claim of machine m has.
func claimedHost(name string, change ...func(*infrav1.Host)) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	h.Spec.Claim = &infrav1.HostClaim{ClaimID: "claim", MachineName: "m", ClusterName: "c"}
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap-claim"}
	for _, f := range change {
		f(h)
	}
	return h
}

func beingReset(h *infrav1.Host) {
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-claim"}
}

func etcdAbandoned(h *infrav1.Host) { h.Spec.Desired.ClusterDeleting = ptr.To(true) }

func ofControlPlane(h *infrav1.Host) { h.Spec.Claim.ControlPlane = ptr.To(true) }

// hostAPI is an API server with hosts, which it finds by their claims.
func hostAPI(t *testing.T, funcs interceptor.Funcs, hosts ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(ownerScheme(t)).WithObjects(hosts...).WithInterceptorFuncs(funcs).
		WithIndex(&infrav1.Host{}, infrav1.HostClaimIDField, func(o client.Object) []string {
			if h, ok := o.(*infrav1.Host); ok && h.Spec.Claim != nil {
				return []string{h.Spec.Claim.ClaimID}
			}
			return []string{""}
		}).Build()
}

// A machine is deleted for good only if a live read says so: else no host is reset.
func TestDeletionIsConfirmed(t *testing.T) {
	busy := errors.New("the API server is busy")
	machine := func(change ...func(*infrav1.HostMachine)) *infrav1.HostMachine {
		m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "u", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
		for _, f := range change {
			f(m)
		}
		return m
	}
	cluster := func(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	going := func(o client.Object) client.Object {
		o.SetDeletionTimestamp(ptr.To(metav1.Now()))
		o.SetFinalizers([]string{"a/b"})
		return o
	}
	owned := machine(func(m *infrav1.HostMachine) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m"}}
	})
	// owner is the Machine that a control plane made, or something else.
	owner := func(kind string, labels ...string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Labels: map[string]string{}}}
		for _, label := range labels {
			m.Labels[label] = ""
		}
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: controlplanev1.GroupVersion.String(), Kind: kind, Name: "cp", Controller: ptr.To(true)}}
		return m
	}
	plane := func() *controlplanev1.KubeadmControlPlane {
		return &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "cp"}}
	}
	for name, c := range map[string]struct {
		live    *infrav1.HostMachine
		cluster *clusterv1.Cluster
		owners  []client.Object
		failure error
		// goes is the answer; moved and leaves are what the scope says.
		goes, moved, leaves bool
	}{
		"deleted":             {live: machine(), cluster: cluster(), goes: true},
		"its Cluster is gone": {live: machine(), goes: true},
		"its Cluster goes":    {live: machine(), cluster: cluster(func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"a/b"} }), goes: true, leaves: true},
		"its control plane goes": {
			live: owned, cluster: cluster(), owners: []client.Object{owner("KubeadmControlPlane", clusterv1.MachineControlPlaneLabel), going(plane())}, goes: true, leaves: true,
		},
		"its control plane stays": {
			live: owned, cluster: cluster(), owners: []client.Object{owner("KubeadmControlPlane", clusterv1.MachineControlPlaneLabel), plane()}, goes: true,
		},
		"its control plane is gone": {
			live: owned, cluster: cluster(), owners: []client.Object{owner("KubeadmControlPlane", clusterv1.MachineControlPlaneLabel)}, goes: true,
		},
		"a worker's maker goes": {live: owned, cluster: cluster(), owners: []client.Object{owner("KubeadmControlPlane"), going(plane())}, goes: true},
		"its Machine is gone":   {live: owned, cluster: cluster(), owners: []client.Object{going(plane())}, goes: true},
		"gone":                  {cluster: cluster(), moved: true},
		"not known":             {failure: busy},
		"another of its name":   {live: machine(func(m *infrav1.HostMachine) { m.UID = "other" }), cluster: cluster(), moved: true},
		"moved": {live: machine(func(m *infrav1.HostMachine) {
			m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		}), cluster: cluster(), moved: true},
		"paused":                      {live: machine(func(m *infrav1.HostMachine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }), cluster: cluster(), moved: true},
		"of a Cluster that is paused": {live: machine(), cluster: cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }), moved: true},
	} {
		builder := fake.NewClientBuilder().WithScheme(ownerScheme(t)).WithObjects(c.owners...)
		if c.live != nil {
			builder = builder.WithObjects(c.live)
		}
		if c.cluster != nil {
			builder = builder.WithObjects(c.cluster)
		}
		api := builder.Build()
		r := &Reconciler{Client: api, APIReader: interceptor.NewClient(api, interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.failure != nil {
					return c.failure
				}
				return api.Get(ctx, key, o, opts...)
			},
		})}
		s := &scope{hostMachine: machine()}
		goes, err := r.confirmDeletion(t.Context(), s)
		if !errors.Is(err, c.failure) || goes != c.goes || s.movedAway != c.moved || s.etcdLeaves != c.leaves {
			t.Errorf("%s: goes %t, moved %t, its etcd goes %t, error %v", name, goes, s.movedAway, s.etcdLeaves, err)
		}
	}
}

// Which hosts of a machine get a reset, with which content, and how often.
func TestResetIsRequested(t *testing.T) {
	for name, c := range map[string]struct {
		claimID string
		hosts   []client.Object
		leaves  bool
		// writes is how many hosts are written, events how many events are made, abandons whether etcd is left.
		writes, events int
		abandons       bool
	}{
		"a worker":                              {claimID: "claim", hosts: []client.Object{claimedHost("h")}, writes: 1, events: 1},
		"two hosts":                             {claimID: "claim", hosts: []client.Object{claimedHost("h"), claimedHost("i")}, writes: 2, events: 2},
		"requested before":                      {claimID: "claim", hosts: []client.Object{claimedHost("h", beingReset)}},
		"a control plane":                       {claimID: "claim", hosts: []client.Object{claimedHost("h", ofControlPlane)}, writes: 1, events: 1},
		"a control plane, with its Cluster":     {claimID: "claim", hosts: []client.Object{claimedHost("h", ofControlPlane)}, leaves: true, writes: 1, events: 1, abandons: true},
		"the Cluster goes later":                {claimID: "claim", hosts: []client.Object{claimedHost("h", ofControlPlane, beingReset)}, leaves: true, writes: 1, abandons: true},
		"the Cluster goes, which it knows":      {claimID: "claim", hosts: []client.Object{claimedHost("h", ofControlPlane, beingReset, etcdAbandoned)}, leaves: true, abandons: true},
		"a worker, with its Cluster":            {claimID: "claim", hosts: []client.Object{claimedHost("h")}, leaves: true, writes: 1, events: 1},
		"another claim":                         {claimID: "other", hosts: []client.Object{claimedHost("h")}},
		"a machine that never claimed anything": {hosts: []client.Object{&infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "free"}}}},
	} {
		writes := 0
		var last *infrav1.Host
		api := hostAPI(t, interceptor.Funcs{Update: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			last, _ = o.(*infrav1.Host)
			return api.Update(ctx, o, opts...)
		}}, c.hosts...)
		// The cache does not show the claims yet.
		cached := interceptor.NewClient(api, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }})
		live := interceptor.NewClient(api, interceptor.Funcs{List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if c.claimID == "" {
				t.Errorf("%s: hosts of no claim are listed", name)
			}
			return api.List(ctx, list, opts...)
		}})
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Client: cached, APIReader: live, Recorder: recorder}
		s := &scope{hostMachine: &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}, Spec: infrav1.HostMachineSpec{ClaimID: c.claimID}}, etcdLeaves: c.leaves}
		if goes, err := r.requestReset(t.Context(), s); err != nil || !goes {
			t.Errorf("%s: %t, %v", name, goes, err)
		}
		if writes != c.writes || len(recorder.Events) != c.events {
			t.Errorf("%s: %d writes and %d events, want %d and %d", name, writes, len(recorder.Events), c.writes, c.events)
		}
		if last != nil && (last.Spec.Desired.Phase != infrav1.HostDesiredReset || ptr.Deref(last.Spec.Desired.ClusterDeleting, false) != c.abandons) {
			t.Errorf("%s: %+v is requested", name, last.Spec.Desired)
		}
	}
}

// When a machine that is deleted lets go of its host, and what it says of it.
func TestReleaseEnds(t *testing.T) {
	busy := errors.New("the API server is busy")
	away := func(h *infrav1.Host) {
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionFalse}}
	}
	failed := func(h *infrav1.Host) {
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "reset-claim", Phase: infrav1.HostDesiredReset, State: infrav1.OperationFailed}
	}
	free := func(h *infrav1.Host) { h.Spec.Claim, h.Spec.Desired = nil, nil }
	for name, c := range map[string]struct {
		claimID, providerID string
		hosts               []client.Object
		withdrawn           bool
		failure             error
		busy                bool
		says                string
	}{
		"no claim":                  {},
		"away, and not recorded":    {claimID: "claim", hosts: []client.Object{claimedHost("h", beingReset, away)}, says: "Warning ReleasedUnproved Host h was released before it was verified clean"},
		"no claim, and a free host": {hosts: []client.Object{claimedHost("h", free)}},
		"it resets":                 {claimID: "claim", providerID: "h", hosts: []client.Object{claimedHost("h", beingReset)}, busy: true},
		"clean":                     {claimID: "claim", providerID: "h", hosts: []client.Object{claimedHost("h", free)}, says: "Normal Released Reset of Host h complete"},
		"the Host is gone":          {claimID: "claim", providerID: "h", says: "Warning ReleasedUnproved Host h was deleted"},
		"never claimed":             {claimID: "claim"},
		"withdrawn":                 {claimID: "claim", providerID: "h", withdrawn: true, hosts: []client.Object{claimedHost("h", free)}},
		"away":                      {claimID: "claim", providerID: "h", hosts: []client.Object{claimedHost("h", beingReset, away)}, says: "Warning ReleasedUnproved Host h was released before it was verified clean"},
		"quarantined":               {claimID: "claim", providerID: "h", hosts: []client.Object{claimedHost("h", beingReset, failed)}, says: "Warning ReleasedUnproved Host h was released before it was verified clean"},
		"not known":                 {claimID: "claim", providerID: "h", failure: busy},
		"of two one resets":         {claimID: "claim", providerID: "h", hosts: []client.Object{claimedHost("h", beingReset, away), claimedHost("i", beingReset)}, busy: true},
		"another machine's is busy": {claimID: "other", providerID: "h", hosts: []client.Object{claimedHost("h", beingReset)}, says: "Normal Released"},
	} {
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Recorder: recorder, APIReader: hostAPI(t, interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.failure != nil {
					return c.failure
				}
				return api.Get(ctx, key, o, opts...)
			},
		}, c.hosts...)}
		m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Finalizers: []string{infrav1.HostMachineFinalizer}}, Spec: infrav1.HostMachineSpec{ClaimID: c.claimID}}
		if c.providerID != "" {
			m.Spec.ProviderID = infrav1.ProviderID("n", c.providerID, "claim")
		}
		s := &scope{hostMachine: m, withdrawn: c.withdrawn}
		done, err := r.awaitRelease(t.Context(), s)
		ends := !c.busy && c.failure == nil
		if !errors.Is(err, c.failure) || done != ends || s.released != ends || (len(m.Finalizers) == 0) != ends || (s.host != nil) != c.busy {
			t.Errorf("%s: done %t, released %t, finalizers %v, host %t, error %v", name, done, s.released, m.Finalizers, s.host != nil, err)
		}
		close(recorder.Events)
		says := ""
		for event := range recorder.Events {
			says += event
		}
		if (says == "") != (c.says == "") || !strings.HasPrefix(says, c.says) {
			t.Errorf("%s: says %q, want %q", name, says, c.says)
		}
	}
}

// A node that is not adopted yet is given back, and never reset.
func TestNodeThatIsNotAdoptedIsGivenBack(t *testing.T) {
	h := claimedHost("h", func(h *infrav1.Host) { h.Spec.Claim.Adopt, h.Spec.Desired = ptr.To(true), nil })
	api := hostAPI(t, interceptor.Funcs{}, h)
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(h), h); err != nil {
		t.Fatal(err)
	}
	s := &scope{hostMachine: &infrav1.HostMachine{}}
	if err := (&Reconciler{Client: api, Recorder: events.NewFakeRecorder(1)}).reset(t.Context(), s, h); err != nil || !s.withdrawn {
		t.Fatal(err, s.withdrawn)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(h), h); err != nil || h.Spec.Claim != nil || h.Spec.Desired != nil {
		t.Errorf("%+v, %v", h.Spec, err)
	}
}
