package hostmachine

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestFailureDomainWithoutHostCluster holds that the failure domain in the status stays as it is
// while the HostCluster, which names the label that decides, cannot be read.
func TestFailureDomainWithoutHostCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	busy := errors.New("the API server is busy")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "hostclusters"}, "c")
	hostCluster := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}, Spec: infrav1.HostClusterSpec{FailureDomainLabel: "row"}}
	for name, c := range map[string]struct {
		failure     error
		ref         string
		want        string
		wantFailure error
	}{
		"read":              {nil, "HostCluster", "row-2", nil},
		"of another kind":   {nil, "OtherCluster", "rack-1", nil},
		"cannot be read":    {busy, "HostCluster", "row-1", busy},
		"no longer present": {gone, "HostCluster", "row-1", nil},
	} {
		r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(hostCluster).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.failure != nil {
					return c.failure
				}
				return api.Get(ctx, key, o, opts...)
			},
		}).Build()}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: c.ref, Name: "c"}
		m := &infrav1.HostMachine{Status: infrav1.HostMachineStatus{FailureDomain: "row-1"}}
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"row": "row-2"}}, Spec: infrav1.HostSpec{FailureDomain: "rack-1"}}
		err := r.mirror(t.Context(), &scope{hostMachine: m, cluster: cluster, host: h})
		if got := m.Status.FailureDomain; got != c.want || !errors.Is(err, c.wantFailure) {
			t.Errorf("%s: failure domain %q and error %v, want %q and %v", name, got, err, c.want, c.wantFailure)
		}
	}
}

// What a machine knows of its host: a machine that has lost it says so, and one whose cache is behind
// goes by a live read.
func TestObserveHost(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	at := func(claimID string) *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
		if claimID != "" {
			h.Spec.Claim = &infrav1.HostClaim{ClaimID: claimID}
		}
		return h
	}
	refused := &metav1.Condition{Type: infrav1.HostClaimedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostAdoptionRefusedReason, Message: "not ours"}
	for name, c := range map[string]struct {
		providerID string
		// claimed is the host that this reconcile claimed, which no reader has to know.
		claimed      *infrav1.Host
		cached, live *infrav1.Host
		before       *metav1.Condition
		held         bool
		reason, says string
	}{
		"its own":                    {cached: at("claim"), live: at("claim"), held: true},
		"of another provider":        {providerID: "other://n/h/claim", cached: at("claim"), live: at("claim"), reason: infrav1.HostMachineHostLostReason, says: `"other://n/h/claim" is not of this provider`},
		"its own, of this reconcile": {claimed: at("claim"), held: true},
		"its own, by the cache only": {cached: at("claim"), held: true},
		"gone":                       {reason: infrav1.HostMachineHostLostReason, says: "Host h is gone"},
		"claimed by another":         {cached: at("other"), live: at("other"), reason: infrav1.HostMachineHostLostReason, says: "Host h no longer carries this claim"},
		"without a claim":            {cached: at(""), live: at(""), reason: infrav1.HostMachineHostLostReason, says: "Host h no longer carries this claim"},
		"the cache is behind":        {cached: at(""), live: at("claim"), held: true},
		"it refused, and was freed":  {cached: at(""), live: at(""), before: refused, reason: infrav1.HostAdoptionRefusedReason, says: "not ours"},
	} {
		build := func(h *infrav1.Host) client.WithWatch {
			b := fake.NewClientBuilder().WithScheme(scheme)
			if h != nil {
				b = b.WithObjects(h)
			}
			return b.Build()
		}
		m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
		m.Spec.ProviderID = cmp.Or(c.providerID, infrav1.ProviderID("n", "h", "claim"))
		if c.before != nil {
			m.Status.Conditions = []metav1.Condition{*c.before}
		}
		r := &Reconciler{Client: build(c.cached), APIReader: build(c.live)}
		written := at("claim")
		written.ResourceVersion = "7"
		r.hosts.Note(at("claim"), written, struct{}{})
		s := &scope{hostMachine: m, claimed: c.claimed, waiting: &waiting{"Before", "before"}}
		held, err := r.observeHost(t.Context(), s)
		if err != nil || held != c.held || (s.host != nil) != c.held {
			t.Errorf("%s: held %t, error %v", name, held, err)
			continue
		}
		switch {
		case c.held && (s.waiting != nil || m.Status.HostRef.Name != "h" || s.host.Spec.Claim == nil):
			t.Errorf("%s: %+v, %+v", name, s.waiting, m.Status.HostRef)
		case !c.held && (s.waiting == nil || s.waiting.reason != c.reason || !strings.Contains(s.waiting.message, c.says)):
			t.Errorf("%s: waits for %+v", name, s.waiting)
		}
		if _, remembered := r.hosts.Over(at("claim")); remembered != (c.cached != nil || c.claimed != nil) {
			t.Errorf("%s: a write to the host is remembered: %t", name, remembered)
		}
	}
}

// What a machine reports of the operation of its host, and how often.
func TestMirror(t *testing.T) {
	operation := func(phase infrav1.HostDesiredPhase, state infrav1.OperationState) *infrav1.ObservedOperation {
		return &infrav1.ObservedOperation{ID: "op", Phase: phase, State: state, Message: "why"}
	}
	const bootstrap, adopt, reboot = infrav1.HostDesiredBootstrapped, infrav1.HostDesiredAdopted, infrav1.HostDesiredRebooted
	for name, c := range map[string]struct {
		op          *infrav1.ObservedOperation
		phase       infrav1.HostDesiredPhase
		provisioned bool
		recorded    bool
		failed      bool
		want        bool
		says        string
	}{
		"nothing yet":              {phase: bootstrap},
		"begun":                    {phase: bootstrap, op: operation(bootstrap, infrav1.OperationRunning)},
		"bootstrapped":             {phase: bootstrap, op: operation(bootstrap, infrav1.OperationSucceeded), want: true, says: "log: Bootstrapped host"},
		"bootstrapped long ago":    {phase: bootstrap, op: operation(bootstrap, infrav1.OperationSucceeded), provisioned: true, want: true},
		"adopted":                  {phase: adopt, op: operation(adopt, infrav1.OperationSucceeded), want: true, says: "log: Adopted the node on a host|Normal Adopted Adopted the node on Host h as it is"},
		"adopted long ago":         {phase: adopt, op: operation(adopt, infrav1.OperationSucceeded), provisioned: true, want: true},
		"rebooted, status lost":    {phase: reboot, op: operation(reboot, infrav1.OperationRunning), want: true},
		"its report is lost":       {phase: bootstrap, recorded: true, want: true},
		"failed":                   {phase: bootstrap, op: operation(bootstrap, infrav1.OperationFailed), says: "Warning BootstrapFailed Host h: why"},
		"failed, and reported":     {phase: bootstrap, op: operation(bootstrap, infrav1.OperationFailed), failed: true},
		"not adopted":              {phase: adopt, op: operation(adopt, infrav1.OperationFailed)},
		"reset, after a bootstrap": {phase: infrav1.HostDesiredReset, op: operation(infrav1.HostDesiredReset, infrav1.OperationRunning), provisioned: true, want: true},
	} {
		m := &infrav1.HostMachine{}
		m.Status.Initialization.Provisioned = ptr.To(c.provisioned)
		if c.failed {
			m.Status.Conditions = []metav1.Condition{{Type: infrav1.BootstrapSucceededCondition, Reason: infrav1.BootstrapFailedReason}}
		}
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
		h.Spec.Claim, h.Spec.Desired = &infrav1.HostClaim{}, &infrav1.HostDesired{Phase: c.phase, OperationID: "op"}
		h.Spec.Desired.Version, h.Spec.Desired.Bootstrapped = "v1.36.3", ptr.To(c.recorded)
		h.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
		h.Status.ObservedOperation = c.op
		m.Status.Version = "v1.35.0"
		var says []string
		log := funcr.New(func(_, line string) {
			says = append(says, "log: "+strings.Trim(strings.SplitN(strings.SplitN(line, `"msg"=`, 2)[1], ` "Host"`, 2)[0], `"`))
		}, funcr.Options{})
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Recorder: recorder}
		if err := r.mirror(ctrl.LoggerInto(t.Context(), log), &scope{hostMachine: m, host: h}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		version := "v1.35.0"
		if c.want && c.phase != infrav1.HostDesiredReset {
			version = "v1.36.3"
		}
		if len(m.Status.Addresses) != 1 || m.Status.HostRef.Name != "h" || m.Status.Version != version {
			t.Errorf("%s: status %+v", name, m.Status)
		}
		close(recorder.Events)
		for event := range recorder.Events {
			says = append(says, event)
		}
		if got := ptr.Deref(m.Status.Initialization.Provisioned, false); got != c.want || strings.Join(says, "|") != c.says {
			t.Errorf("%s: provisioned %t, says %q, want %t, %q", name, got, says, c.want, c.says)
		}
	}
}

// Of two hosts that carry the claim, the one that the providerID does not name is reset.
func TestSurplusHostIsReleased(t *testing.T) {
	api := hostAPI(t, interceptor.Funcs{}, claimedHost("h"), claimedHost("i"))
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}, Spec: infrav1.HostMachineSpec{ClaimID: "claim", ProviderID: infrav1.ProviderID("n", "h", "claim")}}
	r := &Reconciler{Client: api, Recorder: events.NewFakeRecorder(10)}
	if goes, err := r.releaseSurplus(t.Context(), &scope{hostMachine: m}); err != nil || !goes {
		t.Fatal(goes, err)
	}
	for name, want := range map[string]infrav1.HostDesiredPhase{"h": infrav1.HostDesiredBootstrapped, "i": infrav1.HostDesiredReset} {
		h := &infrav1.Host{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, h); err != nil || h.Spec.Desired.Phase != want {
			t.Errorf("%s: %+v, %v", name, h.Spec.Desired, err)
		}
	}
}

// A machine does not keep a host whose agent refused to adopt its node.
func TestRefusedHostIsNotHeld(t *testing.T) {
	h := claimedHost("h", func(h *infrav1.Host) {
		h.Spec.Claim.Adopt = ptr.To(true)
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredAdopted, OperationID: "adopt-claim"}
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "adopt-claim", Phase: infrav1.HostDesiredAdopted, State: infrav1.OperationFailed, Message: "another cluster"}
	})
	s := &scope{hostMachine: &infrav1.HostMachine{}}
	held, err := (&Reconciler{Recorder: events.NewFakeRecorder(1)}).hold(t.Context(), s, h)
	if err != nil || held || s.host != nil || s.waiting == nil || s.waiting.reason != infrav1.HostAdoptionRefusedReason {
		t.Errorf("held %t, %+v, error %v", held, s.waiting, err)
	}
}
