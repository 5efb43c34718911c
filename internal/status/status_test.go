package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

func named(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{}}
	for pair := range slices.Chunk(labels, 2) {
		m.Labels[pair[0]] = pair[1]
	}
	return m
}

func condition(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Because", Message: message}
}

func machine(name, cluster string, conditions ...metav1.Condition) *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: named(name, clusterv1.MachineControlPlaneLabel, ""),
		Spec:       clusterv1.MachineSpec{ClusterName: cluster},
		Status:     clusterv1.MachineStatus{Conditions: conditions},
	}
}

func hostMachine(name, cluster string, conditions ...metav1.Condition) *infrav1.HostMachine {
	h := &infrav1.HostMachine{ObjectMeta: named(name, clusterv1.ClusterNameLabel, cluster)}
	h.Status.Conditions = conditions
	return h
}

func hostPool(name, cluster string, conditions ...metav1.Condition) *infrav1.HostMachinePool {
	p := &infrav1.HostMachinePool{ObjectMeta: named(name, clusterv1.ClusterNameLabel, cluster)}
	p.Status.Conditions = conditions
	return p
}

func host(name string, claim *infrav1.HostClaim, conditions ...metav1.Condition) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: named(name), Spec: infrav1.HostSpec{Claim: claim}}
	h.Status.Phase = infrav1.HostPhaseAvailable
	h.Status.Conditions = conditions
	return h
}

func collect(t *testing.T, nodes NodeLister, objects ...client.Object) Status {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), lifecyclev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	s, err := Collect(t.Context(), c, Scope{}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noNodes(context.Context, client.ObjectKey) ([]corev1.Node, error) {
	return nil, errors.New("unreachable")
}

func oneOfEach() []client.Object {
	a := &clusterv1.Cluster{ObjectMeta: named("a")}
	a.Status.Phase = "Provisioned"
	a.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{DesiredReplicas: ptr.To[int32](3)}
	a.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterTopologyReconciledCondition, "False", "waits for b")}
	b := &clusterv1.Cluster{ObjectMeta: named("b")}
	b.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "c"}, Version: "v1.36.3", ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)}}
	going := machine("a-3", "a", condition(clusterv1.MachineNodeReadyCondition, "True", ""))
	going.Finalizers, going.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: metav1.Now().Time}
	pool := &clusterv1.MachinePool{ObjectMeta: named("a-pool-x7", clusterv1.ClusterTopologyMachinePoolNameLabel, "pool"), Spec: clusterv1.MachinePoolSpec{ClusterName: "a", Replicas: ptr.To[int32](2)}}
	pool.Status.ReadyReplicas = ptr.To[int32](1)
	md := &clusterv1.MachineDeployment{ObjectMeta: named("md"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "b", Replicas: ptr.To[int32](1)}}
	connected := host("host-10", &infrav1.HostClaim{ClusterName: "a", MachineName: "a-1"}, condition(infrav1.AgentConnectedCondition, "True", ""))
	connected.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: "host-10"}, {Type: clusterv1.MachineInternalIP, Address: "10.88.0.20"}}
	return []client.Object{
		b, a, pool, md, going,
		machine("a-1", "a", condition(clusterv1.MachineNodeReadyCondition, "True", "")),
		machine("a-2", "a", condition(clusterv1.MachineNodeReadyCondition, "False", "")),
		machine("b-1", "b"),
		hostMachine("a-1", "a", condition(clusterv1.ReadyCondition, "True", "")),
		hostMachine("a-2", "a", condition(clusterv1.ReadyCondition, "False", "no host")),
		hostMachine("b-1", "b", condition(clusterv1.ReadyCondition, "Unknown", "")),
		hostMachine("b-2", "b", condition(clusterv1.ReadyCondition, "True", ""), condition(infrav1.UpToDateCondition, "False", "upgrade failed")),
		hostPool("b-pool", "b", condition(clusterv1.RemediatingCondition, "True", "1 unhealthy machines")),
		connected,
		host("host-2", nil, condition(clusterv1.ReadyCondition, "False", "agent is silent")),
	}
}

func TestCollect(t *testing.T) {
	s := collect(t, noNodes, oneOfEach()...)
	if len(s.Clusters) != 2 || s.Clusters[0].Name != "a" || s.Clusters[1].Name != "b" {
		t.Fatalf("clusters %+v", s.Clusters)
	}
	a, b := s.Clusters[0], s.Clusters[1]
	if a.ControlPlane != (Replicas{Desired: 3, Ready: 1}) || b.ControlPlane != (Replicas{Desired: 1}) {
		t.Errorf("control planes %+v and %+v; a machine that is being deleted or has no ready Node does not count", a.ControlPlane, b.ControlPlane)
	}
	if !slices.Equal(a.Pools, []Pool{{Name: "pool", Kind: "MachinePool", Replicas: Replicas{2, 1}}}) || !slices.Equal(b.Pools, []Pool{{Name: "md", Kind: "MachineDeployment", Replicas: Replicas{Desired: 1}}}) {
		t.Errorf("pools %+v and %+v", a.Pools, b.Pools)
	}
	if !slices.Equal(a.Waiting, []string{"waits for b", "a-2: no host"}) || !slices.Equal(b.Waiting, []string{"b-1: Because", "b-2: upgrade failed", "b-pool: 1 unhealthy machines"}) {
		t.Errorf("waiting for %q and %q", a.Waiting, b.Waiting)
	}
	if len(s.Hosts) != 2 || s.Hosts[0].Name != "host-2" {
		t.Fatalf("hosts %+v, want host-2 before host-10", s.Hosts)
	}
	if h := s.Hosts[0]; h.State.Role != Work || h.State.Word != "Enrolling" || h.Connected || h.ClaimedBy != "" {
		t.Errorf("host %+v", h)
	}
	if h := s.Hosts[1]; h.ClaimedBy != "a/a-1" || !h.Connected || !slices.Equal(h.Addresses, []string{"10.88.0.20"}) {
		t.Errorf("host %+v", h)
	}
}

// A Node in trouble is waited for at once, while its HostMachine has minutes of grace, and by what
// the Node says once that has none; a cluster that core cannot reach tells nothing of its Nodes.
func TestCollectNodesInTrouble(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: named("a")}
	objects := []client.Object{cluster}
	for _, m := range []struct{ name, ready, readyReason, reason, message string }{
		{"a-1", "True", "Provisioned", clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Kubelet stopped posting node status."},
		{"a-2", "False", infrav1.NodeNotReadyReason, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: PLEG is not healthy"},
		{"a-3", "False", "AgentNotConnected", clusterv1.MachineNodeReadyUnknownReason, ""},
		{"a-4", "True", "Provisioned", clusterv1.MachineNodeConnectionDownReason, "Remote connection not established yet"},
	} {
		node := condition(clusterv1.MachineNodeReadyCondition, "Unknown", m.message)
		node.Reason = m.reason
		of := machine(m.name, "a", node)
		of.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: m.name}
		of.Status.NodeRef.Name = "node-" + m.name
		ready := condition(clusterv1.ReadyCondition, metav1.ConditionStatus(m.ready), "of "+m.name)
		ready.Reason = m.readyReason
		objects = append(objects, of, hostMachine(m.name, "a", ready))
	}
	want := []string{
		"a-1: Node node-a-1 is not ready: Node.Ready: Kubelet stopped posting node status.",
		"a-2: Node node-a-2 is not ready: Node.Ready: PLEG is not healthy",
		"a-3: of a-3",
	}
	if got := collect(t, noNodes, objects...).Clusters[0].Waiting; !slices.Equal(got, want) {
		t.Errorf("waiting for %q, want %q", got, want)
	}
}

func lifecycleRun(name, cluster string, hook lifecyclev1.HookName, change func(*lifecyclev1.LifecycleRunSpec)) *lifecyclev1.LifecycleRun {
	r := &lifecyclev1.LifecycleRun{ObjectMeta: named(name), Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: cluster, PolicyName: "p", Hook: hook, Mode: lifecyclev1.ModeEnforce,
		Steps:    []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}}},
		Progress: []lifecyclev1.StepProgress{{Name: "ask", StartTime: metav1.Now()}},
	}}
	change(&r.Spec)
	return r
}

// A run is told of when the cluster waits for it, and when it failed where nothing
// waits; but not twice.
func TestCollectRuns(t *testing.T) {
	as := func(*lifecyclev1.LifecycleRunSpec) {}
	ended := func(outcome lifecyclev1.StepOutcome) func(*lifecyclev1.LifecycleRunSpec) {
		return func(s *lifecyclev1.LifecycleRunSpec) { s.Progress[0].Outcome = outcome }
	}
	told := lifecycleRun("told", "a", lifecyclev1.BeforeClusterUpgrade, as)
	_, message := plan.Blocks(told, time.Now())
	a := &clusterv1.Cluster{ObjectMeta: named("a")}
	a.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterTopologyReconciledCondition, "False", "hook says: "+message)}
	s := collect(t, noNodes, a, told,
		lifecycleRun("waits", "a", lifecyclev1.BeforeClusterDelete, as),
		lifecycleRun("failed", "a", lifecyclev1.AfterControlPlaneInitialized, ended(lifecyclev1.OutcomeFailed)),
		lifecycleRun("done", "a", lifecyclev1.BeforeClusterCreate, ended(lifecyclev1.OutcomeSucceeded)),
		lifecycleRun("passed", "a", lifecyclev1.AfterClusterUpgrade, func(s *lifecyclev1.LifecycleRunSpec) {
			ended(lifecyclev1.OutcomeSucceeded)(s)
			s.Steps[0] = lifecyclev1.Step{Name: "ask", Window: &lifecyclev1.WindowStep{Schedule: "0 0 29 2 *", DurationSeconds: 60}}
		}),
		lifecycleRun("audit", "a", lifecyclev1.BeforeClusterCreate, func(s *lifecyclev1.LifecycleRunSpec) { s.Mode = lifecyclev1.ModeAudit }),
		lifecycleRun("other", "b", lifecyclev1.BeforeClusterCreate, as))
	got := s.Clusters[0].Waiting
	if len(got) != 3 || !strings.Contains(got[0], message) || !strings.HasPrefix(got[1], "AfterControlPlaneInitialized: failed") || !strings.HasPrefix(got[2], "BeforeClusterDelete: LifecyclePolicy p, step ask: ") {
		t.Errorf("waiting for %q", got)
	}
}

// A cluster that is down must not hide the nodes of the others.
func TestCollectNodes(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: "False"}, {Type: corev1.NodeReady, Status: ready}}
		return n
	}
	s := collect(t, func(ctx context.Context, key client.ObjectKey) ([]corev1.Node, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("a cluster that hangs would hang the status")
		}
		if key.Name == "a" {
			return noNodes(ctx, key)
		}
		return []corev1.Node{node("n-10", "True"), node("n-9", "Unknown")}, nil
	}, oneOfEach()...)
	if got := s.Clusters[0].Nodes; got == nil || len(got) != 0 {
		t.Errorf("nodes of a: %v, want an empty list for JSON", got)
	}
	if got := s.Clusters[1].Nodes; len(got) != 2 || got[0].Name != "n-9" || got[0].Ready || !got[1].Ready {
		t.Errorf("nodes of b: %+v", got)
	}
}

func TestRender(t *testing.T) {
	s := collect(t, noNodes, oneOfEach()...)
	s.Plane = Plane{Ready: true, PID: 7, Server: "https://127.0.0.1:1", Crashes: &PlaneCrashes{Count: 1, Last: time.Now().Add(-3 * time.Hour), Reason: "panic: no map"}}
	s.Clusters[0].Waiting = append(s.Clusters[0].Waiting, "two\nlines")
	s.Clusters[0].Nodes = []Node{{Name: "n", Ready: true, ProviderID: "slipway://x", Version: "v1"}}
	narrow, wide := display.NewPage(nil), display.NewPage(nil)
	Render(narrow, s, false)
	Render(wide, s, true)
	for _, want := range []string{"ready (pid 7, https://127.0.0.1:1)", "once, 3h ago: panic: no map", "default/a", "1/3", "pool 1/2", "a-2: no host", "two lines\n", "default/host-10", "a        a-1"} {
		if !strings.Contains(narrow.String(), want) {
			t.Errorf("%q is missing in\n%s", want, narrow.String())
		}
	}
	for _, want := range []string{"slipway://x", "10.88.0.20", "No agent has reported"} {
		if strings.Contains(narrow.String(), want) || !strings.Contains(wide.String(), want) {
			t.Errorf("%q is for -o wide only:\n%s", want, wide.String())
		}
	}
	down := display.NewPage(nil)
	if Render(down, Status{Plane: Plane{Message: "start it"}}, false); !strings.Contains(down.String(), "not ready: start it") {
		t.Error(down)
	}
}
