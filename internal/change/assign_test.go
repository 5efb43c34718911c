package change_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error {
		env = e
		return installPolicy()
	}))
}

func addToScheme(scheme *runtime.Scheme) error {
	return errors.Join(clientgoscheme.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// installPolicy has the API server ask for the verb order, as the release does.
func installPolicy() error {
	data, err := config.FS.ReadFile("admission/host_policy.yaml")
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			return err
		}
		if err := env.Client.Create(context.Background(), object); err != nil {
			return err
		}
	}
	return nil
}

// world is a pair of namespaces.
type world struct {
	t        *testing.T
	from, to string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	return &world{t: t, from: env.Namespace(t), to: env.Namespace(t)}
}

// free makes a Host that can be assigned.
func (w *world) free(name string, mutate ...func(*infrav1.Host)) *testenv.Agent {
	w.t.Helper()
	return testenv.NewHost(w.t, env.Client, w.from, name, time.Now(), append([]func(*infrav1.Host){func(h *infrav1.Host) {
		h.Finalizers = []string{infrav1.HostFinalizer}
	}}, mutate...)...)
}

// get returns a Host, nil when there is none.
func (w *world) get(namespace, name string) *infrav1.Host {
	w.t.Helper()
	h := &infrav1.Host{}
	err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) assign(c client.Client, timeout time.Duration, names ...string) ([]change.Assigned, error) {
	w.t.Helper()
	return change.Assign(w.t.Context(), change.AssignOptions{Client: c, From: w.from, To: w.to, Timeout: timeout}, names)
}

// assigned calls Assign and wants all to be there.
func (w *world) assigned(state change.AssignState, names ...string) {
	w.t.Helper()
	results, err := w.assign(env.Client, time.Minute, names...)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, name := range names {
		if want := (change.Assigned{Namespace: w.to, Name: name, State: state}); i >= len(results) || results[i] != want {
			w.t.Fatalf("got %+v, want %+v", results, want)
		}
	}
}

// play has agents go over, and the manager tell that they are there and let deleted Hosts go.
func (w *world) play() {
	w.t.Helper()
	poll.Repeat(w.t, func(ctx context.Context) {
		list := &infrav1.HostList{}
		_ = env.Client.List(ctx, list, client.InNamespace(w.from))
		for i := range list.Items {
			w.step(ctx, &list.Items[i])
		}
	})
}

func (w *world) step(ctx context.Context, h *infrav1.Host) {
	if !h.DeletionTimestamp.IsZero() {
		h.Finalizers = nil
		_ = env.Client.Update(ctx, h)
		return
	}
	there := &infrav1.Host{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: h.Spec.AssignedNamespace, Name: h.Name}, there); h.Spec.AssignedNamespace == "" || err != nil || there.Spec.HostID != h.Spec.HostID {
		return
	}
	conditions.Set(there, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason})
	there.Status.BootID = "boot"
	_ = env.Client.Status().Update(ctx, there)
}

// A free host is there afterwards, as what it was here, and not here.
func TestAssign(t *testing.T) {
	w := newWorld(t)
	w.play()
	w.free("h1", func(h *infrav1.Host) {
		h.Labels = map[string]string{
			"rack": "a", "topology.kubernetes.io/zone": "z", clusterv1.WatchLabel: "blue", infrav1.ArchitectureLabel: "amd64",
		}
		h.Annotations = map[string]string{"note": "mine"}
		h.Spec = infrav1.HostSpec{
			HostID: "key", FailureDomain: "z", ResetPolicy: infrav1.ResetPolicyFull, ClaimGeneration: 3, ClearedGeneration: ptr.To[int64](2),
			Unschedulable: ptr.To(true), Evacuate: ptr.To(true),
		}
	})
	var told []string
	results, err := change.Assign(t.Context(), change.AssignOptions{
		Client: env.Client, From: w.from, To: w.to, Timeout: time.Minute, Report: func(name, waiting string) { told = append(told, name+" "+waiting) },
	}, []string{"h1", "h1"})
	if err != nil || !slices.Equal(results, []change.Assigned{{Namespace: w.to, Name: "h1", State: change.StateAssigned}}) {
		t.Fatalf("%+v, %v", results, err)
	}
	if w.get(w.from, "h1") != nil {
		t.Error("the Host that it left is there")
	}
	if !slices.Contains(told, "h1 waits until Host "+w.from+"/h1, which its agent has left, is gone") || len(told) > 2 {
		t.Errorf("told %q", told)
	}
	h := w.get(w.to, "h1")
	if len(h.Labels) != 3 || h.Labels["rack"] != "a" || h.Labels["topology.kubernetes.io/zone"] != "z" || h.Labels[clusterv1.WatchLabel] != "blue" || len(h.Annotations) > 0 {
		t.Errorf("labels %v, annotations %v", h.Labels, h.Annotations)
	}
	if !slices.Equal(h.Finalizers, []string{infrav1.HostFinalizer}) {
		t.Errorf("finalizers %v", h.Finalizers)
	}
	if s := h.Spec; s.HostID != "key" || s.Approval != infrav1.HostApprovalApproved || s.FailureDomain != "z" || s.ResetPolicy != infrav1.ResetPolicyFull || s.ClaimGeneration != 3 ||
		ptr.Deref(s.ClearedGeneration, 0) != 2 || s.Unschedulable != nil || s.Evacuate != nil || s.AssignedNamespace != "" || s.Claim != nil {
		t.Errorf("spec %+v", s)
	}
	w.assigned(change.StateUnchanged, "h1")
}

// Each host goes for itself.
func TestAssignMany(t *testing.T) {
	w := newWorld(t)
	w.play()
	w.free("h1")
	w.free("h2").Connect(t, false)
	w.free("h3")
	results, err := w.assign(env.Client, time.Minute, "h1", "h2", "h3", "h4")
	if err == nil || !strings.Contains(err.Error(), "host h2: the agent of the Host "+w.from+"/h2 is not connected") ||
		!strings.Contains(err.Error(), "host h4: there is no such host in namespace "+w.from+", nor is it in "+w.to+"; `slipway host list -A`") {
		t.Errorf("got %v", err)
	}
	if len(results) != 2 || results[0].Name != "h1" || results[1].Name != "h3" || w.get(w.from, "h2").Spec.AssignedNamespace != "" || w.get(w.to, "h2") != nil {
		t.Errorf("results %+v", results)
	}
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	for to, want := range map[string]string{w.from: "is the one that the hosts are in", "nowhere": `namespace "nowhere" is not there: kubectl create namespace nowhere`} {
		if _, err := change.Assign(t.Context(), change.AssignOptions{Client: env.Client, From: w.from, To: to, Timeout: time.Second}, []string{"h1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v", to, err)
		}
	}
}
