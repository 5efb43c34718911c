package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/test/simagent"
)

const (
	// assignedHost goes to a namespace that was made a moment ago, and back.
	assignedHost, youngNamespace = "assigned", "tenant-d"
	assignedTokenID              = "aaa111"
)

// assigned has a real agent go from one tenant to another, and the other try to have it come
// before.
func (w *world) assigned(t *testing.T) {
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: youngNamespace}})
	machine := w.machine(t, elsewhere, assignedHost, assignedTokenID)
	off := switchOn(t, machine)
	before := w.available(elsewhere, "")

	t.Run("who orders hosts in another namespace", func(t *testing.T) {
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: meta(youngNamespace, "greedy"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "greedy"}},
		})
		greedy := w.client(w.impersonate("greedy"))
		wanted := &infrav1.Host{ObjectMeta: meta(youngNamespace, assignedHost), Spec: infrav1.HostSpec{HostID: before.Spec.HostID}}
		w.eventually("the right is known", func(ctx context.Context) error { return create(wanted)(ctx, greedy) })
		w.judge(t, persona{name: "greedy"}, greedy, attempt{"assign the host", patch(before, map[string]any{"spec": map[string]any{"assignedNamespace": youngNamespace}})})
		// What an agent does that was told takes two seconds.
		time.Sleep(4 * time.Second)
		if h := w.read(youngNamespace); conditions.IsTrue(h, infrav1.AgentConnectedCondition) {
			t.Error("the agent came")
		}
		if err := greedy.Delete(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		w.available(elsewhere, "")
	})
	t.Run("there, and back", func(t *testing.T) {
		began := time.Now()
		w.assign(t, elsewhere, youngNamespace)
		there := w.available(youngNamespace, "")
		if there.Spec.HostID != before.Spec.HostID || there.Spec.Approval != infrav1.HostApprovalApproved {
			t.Errorf("the Host there is %+v", there.Spec)
		}
		off()
		if _, err := os.Stat(machine.BootstrapKubeconfig); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it has a bootstrap token still: %v", err)
		}
		off = switchOn(t, machine)
		w.available(youngNamespace, there.Status.BootID)
		w.assign(t, youngNamespace, elsewhere)
		w.available(elsewhere, "")
		w.noWarnings(t, began, elsewhere, youngNamespace)
	})
	off()
}

// assign takes the host to another namespace.
func (w *world) assign(t *testing.T, from, to string) {
	t.Helper()
	results, err := change.Assign(t.Context(), change.AssignOptions{Client: w.Client, From: from, To: to, Timeout: time.Minute}, []string{assignedHost})
	if err != nil || len(results) != 1 || results[0].State != change.StateAssigned {
		t.Fatalf("assigned %+v: %v", results, err)
	}
	if h := w.read(to); h.Status.BootID == "" {
		t.Error("the Host that it left was deleted before its agent was there")
	}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: from, Name: assignedHost}, &infrav1.Host{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Host in %s is there still: %v", from, err)
	}
}

// machine is one that enrolls with a token of a namespace.
func (w *world) machine(t *testing.T, in, name, tokenID string) *simagent.Machine {
	t.Helper()
	w.token(tokenID, infrav1.HostBootstrapGroup(in, name), nil)
	return &simagent.Machine{
		StateDir: t.TempDir(), BootstrapKubeconfig: w.bootstrapKubeconfig(t, tokenID), Namespace: in, Name: name, Version: testenv.Version,
		HeartbeatInterval: time.Second, LeaseDuration: 10 * time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// switchOn runs the agent of a machine until off is called, or the test ends.
func switchOn(t *testing.T, m *simagent.Machine) (off func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	off = func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent failed: %v", err)
		}
	}
	t.Cleanup(off)
	return off
}

func (w *world) read(in string) *infrav1.Host {
	w.t.Helper()
	h := &infrav1.Host{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: in, Name: assignedHost}, h); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// available waits until the host may be claimed, by the report of another boot than the one named.
func (w *world) available(in, former string) *infrav1.Host {
	w.t.Helper()
	h := &infrav1.Host{}
	w.eventually("host "+in+"/"+assignedHost+" is available", func(ctx context.Context) error {
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: in, Name: assignedHost}, h)
		if err == nil && (!conditions.IsTrue(h, infrav1.AvailableCondition) || h.Status.BootID == former) {
			err = fmt.Errorf("boot %s, %+v", h.Status.BootID, conditions.Get(h, infrav1.AvailableCondition))
		}
		return err
	})
	return h
}

// noWarnings says which warnings there were about the host since it was assigned.
func (w *world) noWarnings(t *testing.T, since time.Time, namespaces ...string) {
	t.Helper()
	for _, in := range namespaces {
		list := &corev1.EventList{}
		if err := w.Client.List(t.Context(), list, client.InNamespace(in)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == assignedHost && e.Type == corev1.EventTypeWarning && e.CreationTimestamp.After(since) {
				t.Errorf("%s: %s: %s", in, e.Reason, e.Message)
			}
		}
	}
}
