package host_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// agentOf is a client with what the certificate of an agent says.
func (w *world) agentOf(name, hostID string) client.Client {
	w.t.Helper()
	c, err := client.New(env.As(infrav1.AgentUser(w.namespace, name, hostID), infrav1.AgentGroup), client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestReplacedHostHasNoRights holds that a machine which was replaced under its name reads
// nothing of its successor, from the moment its Host is gone.
func TestReplacedHostHasNoRights(t *testing.T) {
	w := newWorld(t)
	const oldID, newID = "00000000000000000000000000000000-old", "11111111111111111111111111111111-new"
	a := w.host("host-1", func(h *infrav1.Host) { h.Spec.HostID = oldID })
	w.reconcile(a)
	old := w.agentOf("host-1", oldID)
	eventually := func(what string, try func() error, want func(error) bool) {
		t.Helper()
		poll.Until(t, what, func() error {
			if err := try(); !want(err) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	}
	granted := func(err error) bool { return err == nil }
	eventually("the agent reads its Host", func() error { return old.Get(t.Context(), a.Key, &infrav1.Host{}) }, granted)
	if err := env.Client.Delete(t.Context(), a.Host(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, _ = w.Reconcile(t.Context(), ctrl.Request{NamespacedName: a.Key})
	}
	// No garbage collector runs here: the binding is gone without one.
	binding := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.RoleName("host-1")}
	if err := env.Client.Get(t.Context(), binding, &rbacv1.RoleBinding{}); !apierrors.IsNotFound(err) {
		t.Errorf("the rights of a deleted Host are left: %v", err)
	}
	if err := env.Client.Delete(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: hostcontroller.RoleName("host-1")}}); err != nil {
		t.Fatal(err)
	}

	b := w.host("host-1", func(h *infrav1.Host) { h.Spec.HostID = newID })
	w.assign(b, "secret-1")
	secret := w.bootstrapData("secret-1")
	w.access(w.accessReconciler())
	read := func(c client.Client) error {
		return c.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
	}
	successor := w.agentOf("host-1", newID)
	eventually("the successor reads its bootstrap data", func() error { return read(successor) }, granted)
	if err := read(old); !apierrors.IsForbidden(err) {
		t.Errorf("the replaced machine reads the bootstrap data of its successor: %v", err)
	}
	if err := old.Get(t.Context(), b.Key, &infrav1.Host{}); !apierrors.IsForbidden(err) {
		t.Errorf("the replaced machine reads the Host of its successor: %v", err)
	}
}
