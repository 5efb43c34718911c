package host_test

import (
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// access reconciles secret-1 and returns who may read it.
func (w *world) access(r *hostcontroller.SecretAccessReconciler) (agents []string, result ctrl.Result) {
	w.t.Helper()
	secret := types.NamespacedName{Namespace: w.namespace, Name: "secret-1"}
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: secret})
	if err != nil {
		w.t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.SecretAccessName("secret-1")}
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	switch err := env.Client.Get(w.t.Context(), key, binding); {
	case client.IgnoreNotFound(err) != nil:
		w.t.Fatal(err)
	case err != nil:
		return nil, result
	}
	if err := env.Client.Get(w.t.Context(), key, role); err != nil {
		w.t.Fatal(err)
	}
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].Verbs, []string{"get"}) ||
		!slices.Equal(role.Rules[0].Resources, []string{"secrets"}) || !slices.Equal(role.Rules[0].ResourceNames, []string{"secret-1"}) {
		w.t.Errorf("rules = %+v", role.Rules)
	}
	for _, subject := range binding.Subjects {
		if subject.Kind != rbacv1.UserKind {
			w.t.Errorf("subject %+v", subject)
		}
		agents = append(agents, subject.Name)
	}
	return agents, result
}

func (w *world) orders(agent *testenv.Agent, secret string) {
	w.t.Helper()
	h := agent.Host(w.t)
	h.Spec.Claim = &infrav1.HostClaim{MachineName: "of-" + h.Name, ClusterName: "c1", ClaimID: "claim-" + h.Name}
	h.Spec.ClaimGeneration = 1
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "op-1", BootstrapSecretName: secret}
	w.update(h)
}

func TestSecretIsReadableWhileItIsNamed(t *testing.T) {
	w := newWorld(t)
	r := &hostcontroller.SecretAccessReconciler{Client: env.Client, Clock: w.clock}
	first, second := w.host("host-1"), w.host("host-2")
	user := func(host string) string {
		return infrav1.AgentUser(w.namespace, host, testenv.HostID(w.namespace, host))
	}

	if agents, _ := w.access(r); len(agents) > 0 {
		t.Errorf("%v may read the Secret that no host names", agents)
	}
	w.orders(first, "secret-1")
	w.orders(second, "another")
	if agents, _ := w.access(r); !slices.Equal(agents, []string{user("host-1")}) {
		t.Errorf("%v may read the Secret of host-1", agents)
	}

	// The next change waits for others, and not for long.
	h := second.Host(t)
	h.Spec.Desired.BootstrapSecretName = "secret-1"
	w.update(h)
	agents, result := w.access(r)
	if len(agents) != 1 || result.RequeueAfter <= 0 || result.RequeueAfter > 100*time.Millisecond {
		t.Errorf("right after a change: %v, again after %s", agents, result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	if agents, _ := w.access(r); !slices.Equal(agents, []string{user("host-1"), user("host-2")}) {
		t.Errorf("%v may read the Secret of both", agents)
	}

	for i, agent := range []*testenv.Agent{first, second} {
		h := agent.Host(t)
		h.Spec.Desired.BootstrapSecretName = ""
		w.update(h)
		w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
		if agents, _ := w.access(r); len(agents) != 1-i {
			t.Errorf("%v may read the Secret after %d hosts are done", agents, i+1)
		}
	}
	role := &rbacv1.Role{}
	key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.SecretAccessName("secret-1")}
	if err := env.Client.Get(t.Context(), key, role); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Role is left: %v", err)
	}
}
