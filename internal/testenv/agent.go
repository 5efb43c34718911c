package testenv

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// AgentFieldOwner owns what an agent reports.
const AgentFieldOwner = "slipway-agent"

// LeaseDuration is what agents write into their heartbeat.
const LeaseDuration = 40 * time.Second

// Version is the Kubernetes version the hosts of tests offer.
const Version = "v1.36.3"

// Agent plays the agent of one host: it reports as slipway-agent does, by
// server-side apply of nothing but its own fields.
type Agent struct {
	Client client.Client
	Key    client.ObjectKey
	// FailNext makes the next operation fail with this message.
	FailNext string
	// Status is all that the agent has reported.
	Status infrav1.HostStatus
}

// HostID is the identity of the host that NewHost makes.
func HostID(namespace, name string) string { return "id-of-" + namespace + "-" + name }

// NewHost makes a Host whose agent is connected and proved it clean.
func NewHost(t *testing.T, c client.Client, namespace, name string, now time.Time, mutate ...func(*infrav1.Host)) *Agent {
	t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.HostID = HostID(namespace, name)
	for _, m := range mutate {
		m(h)
	}
	if err := c.Create(context.Background(), h); err != nil {
		t.Fatalf("create Host %s: %v", name, err)
	}
	a := &Agent{Client: c, Key: client.ObjectKeyFromObject(h)}
	a.Report(t, func(s *infrav1.HostStatus) {
		s.BootID = "boot-1"
		s.Inventory = infrav1.HostInventory{OperatingSystem: "Debian", Architecture: "amd64", KubernetesVersions: []string{Version}}
		s.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		s.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.88.0.11"}}
		s.CleanProof = &infrav1.CleanProof{ClaimGeneration: h.Spec.ClaimGeneration, Time: metav1.NewTime(now.Truncate(time.Second))}
	})
	a.Heartbeat(t, now)
	a.Connect(t, true)
	return a
}

// Connect says what the Host controller would say of the agent.
func (a *Agent) Connect(t *testing.T, connected bool) {
	t.Helper()
	condition := metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostHeartbeatStaleReason}
	if connected {
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostHeartbeatFreshReason
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		h := a.Host(t)
		conditions.Set(h, condition)
		return a.Client.Status().Update(context.Background(), h)
	})
	if err != nil {
		t.Fatalf("judge the agent of Host %s: %v", a.Key.Name, err)
	}
}

// Report changes what the agent reports and applies it.
func (a *Agent) Report(t *testing.T, mutate func(*infrav1.HostStatus)) {
	t.Helper()
	mutate(&a.Status)
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&a.Status)
	if err != nil {
		t.Fatalf("encode the report: %v", err)
	}
	apply := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	apply.SetGroupVersionKind(infrav1.GroupVersion.WithKind("Host"))
	apply.SetNamespace(a.Key.Namespace)
	apply.SetName(a.Key.Name)
	err = a.Client.Status().Apply(context.Background(), client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(AgentFieldOwner))
	if err != nil {
		t.Fatalf("report for Host %s: %v", a.Key.Name, err)
	}
}

// Heartbeat renews the Lease. It makes it when the Host controller hasn't yet.
func (a *Agent) Heartbeat(t *testing.T, now time.Time) {
	t.Helper()
	ctx := context.Background()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Key.Namespace, Name: a.Key.Name, Labels: map[string]string{infrav1.HostLabel: a.Key.Name},
	}}
	if err := a.Client.Create(ctx, lease); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create Lease %s: %v", a.Key.Name, err)
	}
	if err := a.Client.Get(ctx, a.Key, lease); err != nil {
		t.Fatalf("get Lease %s: %v", a.Key.Name, err)
	}
	lease.Spec.HolderIdentity = ptr.To(a.Key.Name)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(LeaseDuration / time.Second))
	if err := a.Client.Update(ctx, lease); err != nil {
		t.Fatalf("renew Lease %s: %v", a.Key.Name, err)
	}
}

// Host reads the Host as it is now.
func (a *Agent) Host(t *testing.T) *infrav1.Host {
	t.Helper()
	h := &infrav1.Host{}
	if err := a.Client.Get(context.Background(), a.Key, h); err != nil {
		t.Fatalf("get Host %s: %v", a.Key.Name, err)
	}
	return h
}

// Obey executes the order of the host, if there is a new one, to its end, and
// reports it. It says whether there was one.
func (a *Agent) Obey(t *testing.T, now time.Time) bool {
	t.Helper()
	h := a.Host(t)
	desired := h.Spec.Desired
	if desired == nil || (a.Status.ObservedOperation != nil && a.Status.ObservedOperation.ID == desired.OperationID) {
		return false
	}
	// The API keeps whole seconds.
	at := metav1.NewTime(now.Truncate(time.Second))
	a.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = &infrav1.ObservedOperation{
			ID: desired.OperationID, ClaimID: h.Spec.Claim.ClaimID, Phase: desired.Phase,
			State: infrav1.OperationSucceeded, StartTime: at, CompletionTime: at,
		}
		switch {
		case a.FailNext != "":
			s.ObservedOperation.State = infrav1.OperationFailed
			s.ObservedOperation.Step = "runcmd"
			s.ObservedOperation.Message = a.FailNext
			a.FailNext = ""
		case desired.Phase == infrav1.HostDesiredAdopted:
			s.Residue = nil
		case desired.Phase == infrav1.HostDesiredBootstrapped:
			s.CleanProof = nil
		case desired.ResetPolicy != infrav1.ResetPolicyManual:
			s.CleanProof = &infrav1.CleanProof{ClaimGeneration: h.Spec.ClaimGeneration, Time: at}
		}
	})
	return true
}
