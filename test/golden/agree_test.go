package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// setup is a cluster a with a worker a-1 on host used, and a host that is free.
type setup struct {
	Cluster     clusterv1.Cluster
	HostCluster infrav1.HostCluster
	Machine     clusterv1.Machine
	HostMachine infrav1.HostMachine
	Used, Free  infrav1.Host
	HealthCheck clusterv1.MachineHealthCheck
	Run         *lifecyclev1.LifecycleRun
}

func ago(d time.Duration) metav1.Time {
	return metav1.NewTime(time.Now().Add(-d).Truncate(time.Second))
}

// say sets a condition that has been so for that long.
func say(conditions *[]metav1.Condition, kind, is, reason, message string, age time.Duration) {
	for i := range *conditions {
		if (*conditions)[i].Type == kind {
			*conditions = append((*conditions)[:i:i], (*conditions)[i+1:]...)
			break
		}
	}
	*conditions = append(*conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(is), Reason: reason, Message: message, LastTransitionTime: ago(age)})
}

func object(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	group := infrav1.GroupVersion
	switch kind {
	case "Cluster", "Machine", "MachineHealthCheck":
		group = clusterv1.GroupVersion
	case "LifecycleRun":
		group = lifecyclev1.GroupVersion
	}
	return metav1.TypeMeta{APIVersion: group.String(), Kind: kind}, metav1.ObjectMeta{
		Namespace: "prod", Name: name, UID: "uid", CreationTimestamp: ago(24 * time.Hour), Annotations: map[string]string{}, Labels: map[string]string{clusterv1.ClusterNameLabel: "a"},
	}
}

func host(name string) infrav1.Host {
	h := infrav1.Host{}
	h.TypeMeta, h.ObjectMeta = object("Host", name)
	h.Spec.HostID, h.Status.BootID = "id-"+name, "boot"
	h.Status.Phase = infrav1.HostPhaseAvailable
	h.Status.CleanProof = &infrav1.CleanProof{Time: ago(2 * time.Hour)}
	h.Status.Inventory.Architecture, h.Status.Capacity = "amd64", corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("4")}
	say(&h.Status.Conditions, infrav1.AgentConnectedCondition, "True", infrav1.HostHeartbeatFreshReason, "", time.Hour)
	say(&h.Status.Conditions, infrav1.AvailableCondition, "True", infrav1.HostAvailableReason, "", time.Hour)
	say(&h.Status.Conditions, clusterv1.ReadyCondition, "True", infrav1.HostAvailableReason, "", time.Hour)
	return h
}

// well is a fleet in which nothing is wrong.
func well() *setup {
	f := &setup{Used: host("used"), Free: host("free")}
	f.Cluster.TypeMeta, f.Cluster.ObjectMeta = object("Cluster", "a")
	f.Cluster.Status.Phase = "Provisioned"
	say(&f.Cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, "True", "Initialized", "", time.Hour)
	say(&f.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition, "True", "Available", "", time.Hour)
	say(&f.Cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, "True", "ProbeSucceeded", "", time.Hour)
	f.HostCluster.TypeMeta, f.HostCluster.ObjectMeta = object("HostCluster", "a")
	f.HostCluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.9", Port: 6443}
	say(&f.HostCluster.Status.Conditions, infrav1.EndpointHeldCondition, "True", infrav1.EndpointHeldReason, "", time.Hour)
	f.Machine.TypeMeta, f.Machine.ObjectMeta = object("Machine", "a-1")
	f.Machine.Spec.ClusterName, f.Machine.Spec.ProviderID, f.Machine.Status.NodeRef.Name = "a", "slipway:///prod/used", "used"
	f.Machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: "a-1"}
	say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "True", "NodeReady", "", time.Hour)
	say(&f.Machine.Status.Conditions, clusterv1.MachineNodeHealthyCondition, "True", "NodeHealthy", "", time.Hour)
	f.HostMachine.TypeMeta, f.HostMachine.ObjectMeta = object("HostMachine", "a-1")
	f.HostMachine.Status.HostRef.Name = "used"
	say(&f.HostMachine.Status.Conditions, clusterv1.ReadyCondition, "True", infrav1.HostMachineProvisionedReason, "", time.Hour)
	f.Used.Status.Phase, f.Used.Status.CleanProof = infrav1.HostPhaseRunning, nil
	f.Used.Spec.Claim, f.Used.Spec.ClaimGeneration = &infrav1.HostClaim{ClusterName: "a", MachineName: "a-1", ClaimID: "c"}, 1
	f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded, time.Hour)
	say(&f.Used.Status.Conditions, infrav1.AvailableCondition, "False", infrav1.HostClaimedReason, "claimed", time.Hour)
	f.HealthCheck.TypeMeta, f.HealthCheck.ObjectMeta = object("MachineHealthCheck", "a")
	f.HealthCheck.Spec.ClusterName = "a"
	f.HealthCheck.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: "a"}
	return f
}

// operation is what the host in use was told last.
func (f *setup) operation(phase infrav1.HostDesiredPhase, state infrav1.OperationState, age time.Duration) {
	f.Used.Spec.Desired = &infrav1.HostDesired{Phase: phase, OperationID: "op"}
	f.Used.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", Phase: phase, State: state, Step: "drain", Message: "it has gone wrong", StartTime: ago(age)}
	if state != infrav1.OperationRunning {
		f.Used.Status.ObservedOperation.CompletionTime = ago(age)
	}
	if state == infrav1.OperationFailed {
		say(&f.Used.Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostBootstrapFailedReason, "it has gone wrong", age)
	}
}

func (f *setup) unready(age time.Duration) {
	say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Kubelet stopped posting node status.", age)
}

// asks has the cluster wait for an approval, or for what became of it.
func (f *setup) asks(outcome lifecyclev1.StepOutcome) {
	f.Run = &lifecyclev1.LifecycleRun{Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: "a", PolicyName: "p", Hook: lifecyclev1.BeforeClusterUpgrade, Mode: lifecyclev1.ModeEnforce,
		Steps:    []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}}},
		Progress: []lifecyclev1.StepProgress{{Name: "ask", StartTime: ago(old), Outcome: outcome}},
	}}
	if outcome != "" {
		f.Run.Spec.Progress[0].EndTime = ago(young)
	}
	f.Run.TypeMeta, f.Run.ObjectMeta = object("LifecycleRun", "r")
}

func (f *setup) stopped(age time.Duration) {
	f.Used.Status.Services = []infrav1.HostService{{Name: "kubelet", State: "inactive", Since: ago(age)}}
}

func (f *setup) cutOff(age time.Duration) {
	f.Used.Status.EndpointFailure = &infrav1.HostEndpointFailure{Server: "https://10.0.0.9:6443", Message: "dial tcp: no route to host", Since: ago(age)}
}

func (f *setup) withoutNetwork(age time.Duration) {
	say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "False", clusterv1.MachineNodeNotReadyReason, "* Node.Ready: reason:NetworkPluginNotReady", age)
}

// drains has the machine be deleted, and a budget forbid the drain of its Node.
func (f *setup) drains(age time.Duration) {
	f.Machine.DeletionTimestamp, f.Machine.Finalizers = ptr.To(ago(age)), []string{"x/y"}
	f.Machine.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(age)}
	say(&f.Machine.Status.Conditions, clusterv1.MachineDeletingCondition, "True", clusterv1.MachineDeletingDrainingNodeReason, "* Pod a/b: cannot evict pod as it would violate the pod's disruption budget.", age)
}

func (f *setup) endpoint(reason string, age time.Duration) {
	say(&f.HostCluster.Status.Conditions, infrav1.EndpointHeldCondition, "False", reason, "10.0.0.9 is in use by 02:88:00:00:00:01", age)
}

// objects of the fleet in a namespace.
func (f *setup) objects(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	all := []any{&f.Cluster, &f.HostCluster, &f.Machine, &f.HostMachine, &f.Used, &f.Free, &f.HealthCheck}
	if f.Run != nil {
		all = append(all, f.Run)
	}
	var objects []*unstructured.Unstructured
	for _, typed := range all {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetNamespace(namespace)
		objects = append(objects, object)
	}
	return objects
}

// alsoServed are objects elsewhere, so that their kinds are installed.
func alsoServed() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, kind := range [][2]string{{clusterv1.GroupVersion.String(), "MachinePool"}, {clusterv1.GroupVersion.String(), "MachineDeployment"}, {infrav1.GroupVersion.String(), "HostMachinePool"}, {"v1", "Secret"}, {"v1", "Event"}, {"certificates.k8s.io/v1", "CertificateSigningRequest"}} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind[0], "kind": kind[1], "metadata": map[string]any{"name": "x", "namespace": "elsewhere"}}})
	}
	return objects
}

const (
	young = time.Second
	grown = 2 * time.Minute
	old   = 10 * time.Minute
)

// situations are a fleet with one thing changed, and how the host in use, the free one and the
// cluster are shown everywhere; without a word for the free one it is Available. The age is that
// of the trouble.
var situations = []struct {
	name                string
	change              func(f *setup)
	used, free, cluster string
	age                 time.Duration
	exit                int
}{
	{"nothing is wrong", func(*setup) {}, "ok Running", "", "ok Available", 0, 0},
	{"a node was lost a moment ago", func(f *setup) { f.unready(young) }, "off NodeUnwell", "", "off NodeUnwell", young, 0},
	{"a node was lost", func(f *setup) { f.unready(grown) }, "bad NodeUnwell", "", "bad NodeUnwell", grown, 0},
	{"a node was lost long ago", func(f *setup) { f.unready(old) }, "bad NodeUnwell", "", "bad NodeUnwell", old, 2},
	{"a host was renamed a moment ago", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostRenamedReason, "it is called x", young)
	}, "off NodeIdentityChanged", "", "off NodeIdentityChanged", young, 0},
	{"a host was renamed", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostRenamedReason, "it is called x", old)
	}, "bad NodeIdentityChanged", "", "bad NodeIdentityChanged", old, 0},
	{"a host lost its address", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostNodeAddressMissingReason, "it has 10.0.0.7", old)
	}, "bad NodeIdentityChanged", "", "bad NodeIdentityChanged", old, 2},
	{"a clock is off", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.ClockSkewedCondition, "True", infrav1.HostClockAheadReason, "40 s ahead", young)
	}, "off ClockSkewed", "", "off ClockSkewed", young, 0},
	{"a clock has been off", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.ClockSkewedCondition, "True", infrav1.HostClockAheadReason, "40 s ahead", old)
	}, "bad ClockSkewed", "", "bad ClockSkewed", old, 2},
	{"a kubelet was stopped a moment ago", func(f *setup) { f.stopped(young) }, "off ServiceDown", "", "off ServiceDown", young, 0},
	{"a kubelet was stopped, and the node is lost", func(f *setup) { f.stopped(old); f.unready(old - time.Minute) }, "bad ServiceDown", "", "bad ServiceDown", old, 2},
	{"a node does not reach its cluster", func(f *setup) { f.cutOff(young) }, "off EndpointUnreachable", "", "off EndpointUnreachable", young, 0},
	{"a node has not reached its cluster", func(f *setup) { f.cutOff(old); f.unready(grown) }, "bad EndpointUnreachable", "", "bad EndpointUnreachable", old, 2},
	{"the network plugin of a node went a moment ago", func(f *setup) { f.withoutNetwork(young) }, "off NodeUnwell", "", "off NoNetworkPlugin", young, 0},
	{"the network plugin of a node is gone", func(f *setup) { f.withoutNetwork(old) }, "off NodeUnwell", "", "bad NoNetworkPlugin", old, 2},
	{"a disk is full", func(f *setup) {
		f.Free.Status.LowDisk = &infrav1.HostLowDisk{Path: "/var/lib/kubelet", FreeGiB: ptr.To[int32](1), NeededGiB: 5, Since: ago(old)}
	}, "ok Running", "bad LowDisk", "ok Available", old, 0},
	{"a journal is lost", func(f *setup) {
		say(&f.Free.Status.Conditions, infrav1.RecordKeptCondition, "False", infrav1.HostRecordLostReason, "it is gone", old)
	}, "ok Running", "bad RecordLost", "ok Available", old, 2},
	{"an agent's configuration is wrong", func(f *setup) {
		say(&f.Free.Status.Conditions, infrav1.ConfigurationAcceptedCondition, "False", infrav1.HostEntriesInvalidReason, "no such kind", old)
	}, "ok Running", "bad ConfigurationNotAccepted", "ok Available", old, 0},
	{"an agent does not answer", func(f *setup) {
		heard := "The last heartbeat of the agent is of " + ago(young).UTC().Format(time.RFC3339) + " by its own clock. Check it"
		say(&f.Used.Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, heard, 0)
	}, "off HostDisconnected", "", "off HostDisconnected", young, 0},
	{"an agent has not answered for long", func(f *setup) {
		say(&f.Used.Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, "silent", old)
	}, "bad HostDisconnected", "", "bad HostDisconnected", old, 2},
	{"the agent of a free host does not answer", func(f *setup) {
		say(&f.Free.Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, "silent", old)
	}, "ok Running", "bad HostDisconnected", "ok Available", old, 0},
	{"the endpoint is a host's own address", func(f *setup) {
		say(&f.HostCluster.Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostClusterEndpointOfHostReason, "it is the own address of Host free", young)
	}, "ok Running", "", "bad EndpointRefused", young, 2},
	{"two hosts have the address", func(f *setup) { f.endpoint(infrav1.EndpointHeldTwiceReason, young) }, "ok Running", "", "off AddressHeldTwice", young, 0},
	{"two hosts have had the address", func(f *setup) { f.endpoint(infrav1.EndpointHeldTwiceReason, old) }, "ok Running", "", "bad AddressHeldTwice", old, 2},
	{"another machine has the address", func(f *setup) { f.endpoint(infrav1.EndpointContestedReason, grown) }, "ok Running", "", "bad AddressContested", grown, 0},
	{"nobody has the address", func(f *setup) { f.endpoint(infrav1.EndpointNotHeldReason, old) }, "ok Running", "", "bad AddressNotHeld", old, 2},
	{"the cluster is not reached", func(f *setup) {
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, "False", "ProbeFailed", "Remote connection probe failed", old)
		say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeConnectionDownReason, "Remote connection is down", old)
	}, "off NodeUnknown", "", "bad ClusterUnreachable", old, 2},
	{"a host boots for the first time", func(f *setup) {
		f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationRunning, grown)
		f.Machine.Status.NodeRef.Name, f.Machine.Spec.ProviderID = "", ""
	}, "work Bootstrapping", "", "ok Available", 0, 0},
	{"a node joins", func(f *setup) {
		f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded, young)
		f.Machine.Status.NodeRef.Name = ""
		say(&f.HostMachine.Status.Conditions, clusterv1.ReadyCondition, "True", infrav1.HostMachineProvisionedReason, "", young)
		say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeInspectionFailedReason, "Waiting for a Node", grown)
	}, "work Joining", "", "ok Available", 0, 0},
	{"a host has become a node, of which the cluster was not asked yet", func(f *setup) {
		f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded, young)
		f.Machine.Status.NodeRef.Name, f.Machine.Spec.ProviderID = "", ""
		say(&f.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeInspectionFailedReason, "Waiting for HostMachine to report spec.providerID", grown)
	}, "work Joining", "", "ok Available", 0, 0},
	{"a host enrolls", func(f *setup) {
		f.Free.Status = infrav1.HostStatus{}
		say(&f.Free.Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostNoHeartbeatReason, "The agent has never been heard of", young)
	}, "ok Running", "work Enrolling", "ok Available", 0, 0},
	{"a host reboots", func(f *setup) {
		f.operation(infrav1.HostDesiredRebooted, infrav1.OperationRunning, grown)
		f.unready(grown)
		say(&f.Used.Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, "silent", grown)
	}, "work Rebooting", "", "off HostDisconnected", grown, 0},
	{"an operation failed", func(f *setup) { f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationFailed, grown) }, "bad OperationFailed", "", "bad OperationFailed", grown, 2},
	{"a host is not clean", func(f *setup) {
		f.Free.Status.CleanProof, f.Free.Status.Residue = nil, []string{"/etc/kubernetes"}
		say(&f.Free.Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostAdoptionRefusedReason, "left", old)
	}, "ok Running", "bad HostQuarantined", "ok Available", old, 2},
	{"a host waits for an approval", func(f *setup) { f.Free.Spec.Approval = infrav1.HostApprovalPending }, "ok Running", "wait HostNotApproved", "ok Available", 0, 0},
	{"a host is paused", func(f *setup) {
		f.Free.Annotations[clusterv1.PausedAnnotation] = ""
		say(&f.Free.Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "", old)
	}, "ok Running", "off Paused", "ok Available", old, 0},
	{"a machine is paused", func(f *setup) {
		f.Machine.Annotations[clusterv1.PausedAnnotation] = ""
		say(&f.Machine.Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "", old)
	}, "off Paused", "", "ok Available", old, 0},
	{"a free host is kept back", func(f *setup) { f.Free.Spec.Unschedulable = ptr.To(true) }, "ok Running", "off HostKeptBack", "ok Available", 0, 0},
	{"a cluster scales up", func(f *setup) {
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterScalingUpCondition, "True", "ScalingUp", "from 1 to 2", grown)
	}, "ok Running", "", "work ScalingUp", 0, 0},
	{"a cluster rolls out", func(f *setup) {
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterRollingOutCondition, "True", "RollingOut", "1 of 2", old)
	}, "ok Running", "", "work RollingOut", 0, 0},
	{"a cluster is paused", func(f *setup) {
		f.Cluster.Spec.Paused = ptr.To(true)
		say(&f.Cluster.Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "", old)
	}, "ok Running", "", "off Paused", old, 0},
	{"a cluster has been paused for a day", func(f *setup) {
		f.Cluster.Spec.Paused = ptr.To(true)
		say(&f.Cluster.Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "", 24*time.Hour)
	}, "ok Running", "", "wait Paused", 24 * time.Hour, 0},
	{"a cluster waits for an approval", func(f *setup) { f.asks("") }, "ok Running", "", "wait LifecycleHookWaits", old, 0},
	{"a step of a cluster failed", func(f *setup) { f.asks(lifecyclev1.OutcomeFailed) }, "ok Running", "", "bad LifecycleHookWaits", old, 2},
	{"a cluster is not available", func(f *setup) {
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition, "False", "NotAvailable", "* WorkersAvailable: too few", grown)
	}, "ok Running", "", "bad ClusterNotAvailable", grown, 0},
	{"a cluster was not yet available", func(f *setup) {
		f.Cluster.Status.Conditions = nil
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition, "False", "NotAvailable", "* ControlPlaneInitialized: not yet", old)
		f.operation(infrav1.HostDesiredBootstrapped, infrav1.OperationRunning, grown)
	}, "work Bootstrapping", "", "work Provisioning", 0, 0},
	{"a cluster has just got its control plane", func(f *setup) {
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, "True", "Initialized", "", young)
		say(&f.Cluster.Status.Conditions, clusterv1.ClusterAvailableCondition, "False", "NotAvailable", "* ControlPlaneAvailable: Waiting for etcd to report the list of members", grown)
	}, "ok Running", "", "work Provisioning", 0, 0},
	{"a machine is being deleted", func(f *setup) {
		f.Machine.DeletionTimestamp = ptr.To(ago(grown))
		f.Machine.Finalizers = []string{"x/y"}
	}, "work Deleting", "", "ok Available", 0, 0},
	{"a budget blocks a drain", func(f *setup) { f.drains(grown) }, "work Deleting", "", "off DeletionStuck", grown, 0},
	{"a budget has blocked a drain", func(f *setup) { f.drains(old) }, "bad DeletionStuck", "", "bad DeletionStuck", old, 0},
	{"certificates of a control plane have ended", func(f *setup) { f.Machine.Status.CertificatesExpiryDate = ago(old) }, "bad CertificateExpires", "", "bad CertificateExpires", old, 2},
	{"a cluster has no health check", func(f *setup) { f.HealthCheck.Spec.ClusterName = "other" }, "ok Running", "", "ok Available", 0, 0},
}

// ran is what a command printed, and its exit code.
func ran(t *testing.T, line string) (string, int) {
	t.Helper()
	root := cli.Root(cli.Program{Name: "slipway"})
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(strings.Fields(line))
	code, silent := cli.ExitCode(root.ExecuteContext(t.Context()))
	if code != 0 && !silent {
		t.Fatalf("%s ends with %d: %s", line, code, out.String())
	}
	return out.String(), code
}

func parsed[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// stateAfter is the first role and word after an anchor of a page.
func stateAfter(t *testing.T, page, anchor string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, anchor)
	match := regexp.MustCompile(`<span class="pill (\w+)"><svg aria-hidden="true"><use href="#i-\w+"/></svg>(\w+)</span>`).FindStringSubmatch(rest)
	if !found || match == nil {
		t.Fatalf("no state after %s:\n%s", anchor, page)
	}
	return match[1] + " " + match[2]
}

// What commands, doctor and the console say of a host or a cluster is the same: role, word, begin,
// cause and command; and doctor's exit code with it. Nothing is silent in its first minute.
func TestAllTellTheSameState(t *testing.T) {
	objects, begin := alsoServed(), time.Now()
	// What is young grows up within a minute, which a busy machine needs for all of them.
	sort.SliceStable(situations, func(i, j int) bool { return situations[i].age == young && situations[j].age != young })
	for i, s := range situations {
		f := well()
		s.change(f)
		objects = append(objects, f.objects(t, fmt.Sprintf("s%d", i))...)
	}
	kubeconfig := serveObjects(t, objects)
	t.Setenv("KUBECONFIG", kubeconfig)
	request := serveConsole(t, kubeconfig)
	page := func(path string) string {
		t.Helper()
		status, text := request(path)
		if status != "200 OK" {
			t.Fatalf("%s: %s", path, status)
		}
		return text
	}
	hostsPage, clustersPage := page("/hosts"), page("/clusters")
	inbox, _, _ := strings.Cut(page("/"), "<h2>In numbers</h2>")
	for i, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			namespace := fmt.Sprintf("s%d", i)
			text, code := ran(t, "doctor -o json -n "+namespace)
			report := parsed[doctor.Report](t, text)
			if code != s.exit {
				t.Errorf("doctor ends with %d, want %d: %s", code, s.exit, text)
			}
			text, _ = ran(t, "status -o json -n "+namespace)
			all := parsed[status.Status](t, text)
			text, _ = ran(t, "host list -o json -n "+namespace)
			hosts := parsed[[]struct {
				Name  string
				State status.State
			}](t, text)
			text, _ = ran(t, "cluster get -o json -n "+namespace)
			clusters := parsed[[]struct{ State status.State }](t, text)
			table, _ := ran(t, "status -n "+namespace)
			clusterPage, hostPage := page("/clusters/"+namespace+"/a"), page("/hosts/"+namespace+"/used")
			want := map[string]string{"used": s.used, "free": s.free}
			if s.free == "" {
				want["free"] = "free Available"
			}
			for i, h := range all.Hosts {
				if got := string(h.State.Role) + " " + h.State.Word; got != want[h.Name] {
					t.Errorf("status says of host %s: %q, want %q", h.Name, got, want[h.Name])
				}
				if hosts[i].Name != h.Name || !reflect.DeepEqual(hosts[i].State, h.State) {
					t.Errorf("host list says %+v, status %+v", hosts[i], h.State)
				}
				if got := stateAfter(t, hostsPage, `id="h-`+namespace+`-`+h.Name+`"`); got != want[h.Name] {
					t.Errorf("the list says of host %s: %q, want %q", h.Name, got, want[h.Name])
				}
				agrees(t, h.State, report, begin.Add(-s.age), s.age > 0, table)
			}
			c := all.Clusters[0].State
			if got := string(c.Role) + " " + c.Word; got != s.cluster {
				t.Errorf("status says of the cluster: %q, want %q", got, s.cluster)
			}
			if !reflect.DeepEqual(clusters[0].State, c) {
				t.Errorf("cluster get says %+v, status %+v", clusters[0].State, c)
			}
			for text, anchor := range map[string]string{clustersPage: `id="c-` + namespace + `-a"`, clusterPage: `<h2>How it is</h2>`} {
				if got := stateAfter(t, text, anchor); got != s.cluster {
					t.Errorf("a page says of the cluster: %q, want %q", got, s.cluster)
				}
			}
			for text, anchor := range map[string]string{hostPage: `<h2>How it is</h2>`, clusterPage: `<th scope="row">a-1</th>`} {
				if got := stateAfter(t, text, anchor); got != s.used {
					t.Errorf("a page says of the host in use: %q, want %q", got, s.used)
				}
			}
			agrees(t, c, report, begin.Add(-s.age), s.age > 0, table)
			if !strings.Contains(table, c.Next) {
				t.Errorf("the table lacks the command %q:\n%s", c.Next, table)
			}
			for text, is := range map[string]status.State{clusterPage: c, hostPage: all.Hosts[1].State, page("/hosts/" + namespace + "/free"): all.Hosts[0].State} {
				if !strings.Contains(html.UnescapeString(text), is.Next) {
					t.Errorf("the page of what is %s lacks the command %q", is.Word, is.Next)
				}
			}
			for _, f := range report.Findings {
				// What a run waits for has the same words in doctor and in the status of its cluster.
				if f.Check == "LifecycleHookWaits" && !reflect.DeepEqual(all.Clusters[0].Waiting, []string{f.Message}) {
					t.Errorf("doctor finds %q, the cluster waits for %q", f.Message, all.Clusters[0].Waiting)
				}
				if link := `href="` + view.PageOf(f.Object.Kind, namespace, f.Object.Name, f.Cluster) + `"`; f.Severity != doctor.Note && !strings.Contains(inbox, link) {
					t.Errorf("doctor finds %+v, and the overview has no %s", f, link)
				}
				if f.Severity != doctor.Note && !all.Clusters[0].State.Attention() && !all.Hosts[0].State.Attention() && !all.Hosts[1].State.Attention() {
					t.Errorf("doctor finds %+v, and nothing needs attention", f)
				}
			}
		})
	}
}

// agrees holds a state against the finding that it comes from.
func agrees(t *testing.T, s status.State, report doctor.Report, begin time.Time, known bool, table string) {
	t.Helper()
	if !strings.Contains(table, s.Word) {
		t.Errorf("the table lacks %s:\n%s", s.Word, table)
	}
	var found *doctor.Finding
	for i := range report.Findings {
		if report.Findings[i].Check == s.Word {
			found = &report.Findings[i]
		}
	}
	if s.Role == status.Bad && (found == nil || found.Severity == doctor.Note) || found == nil && s.Next != "" {
		t.Errorf("%+v has no finding: %+v", s, report.Findings)
	}
	if found == nil {
		return
	}
	if !strings.Contains(s.Cause, found.Message) || s.Cause == "" || s.Next != found.Next || s.Next == "" || !reflect.DeepEqual(s.Since, found.Since) {
		t.Errorf("the state is %+v, doctor found %+v", s, found)
	}
	if known && (s.Since == nil || begin.Sub(*s.Since).Round(time.Minute) != 0) {
		t.Errorf("%+v began at %v, want %s", s, s.Since, begin)
	}
	if bad := found.Severity != doctor.Note; bad && !s.Attention() {
		t.Errorf("%+v has the %s %+v", s, found.Severity, found)
	}
}
