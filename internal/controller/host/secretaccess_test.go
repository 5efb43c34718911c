package host_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// access reconciles secret-1 and returns who may read it.
func (w *world) access(r *hostcontroller.SecretAccessReconciler) (agents []string, result ctrl.Result) {
	w.t.Helper()
	return w.accessTo(r, "secret-1")
}

func (w *world) accessTo(r *hostcontroller.SecretAccessReconciler, name string) (agents []string, result ctrl.Result) {
	w.t.Helper()
	secret := types.NamespacedName{Namespace: w.namespace, Name: name}
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: secret})
	if err != nil {
		w.t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.SecretAccessName(name)}
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
		!slices.Equal(role.Rules[0].Resources, []string{"secrets"}) || !slices.Equal(role.Rules[0].ResourceNames, []string{name}) {
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

// accessReconciler is a SecretAccessReconciler of the world.
func (w *world) accessReconciler() *hostcontroller.SecretAccessReconciler {
	return &hostcontroller.SecretAccessReconciler{
		Client: managed, APIReader: managed, Recorder: &events.FakeRecorder{Events: w.events}, Clock: w.clock,
	}
}

// assign claims a host for a Machine whose bootstrap data is the Secret, and requests its
// bootstrap.
func (w *world) assign(agent *testenv.Agent, secret string, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) {
	w.t.Helper()
	h := agent.Host(w.t)
	h.Spec.Claim = &infrav1.HostClaim{MachineName: "of-" + h.Name, ClusterName: testenv.ClusterName, ClaimID: "claim-" + h.Name}
	h.Spec.ClaimGeneration = 1
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "op-1", BootstrapSecretName: secret}
	testenv.NewMachine(w.t, env.Client, w.namespace, h.Spec.Claim.MachineName, append([]func(*clusterv1.Machine, *infrav1.HostMachine){
		func(machine *clusterv1.Machine, m *infrav1.HostMachine) {
			machine.Spec.Bootstrap.DataSecretName = ptr.To(secret)
			m.Spec.ClaimID = h.Spec.Claim.ClaimID
		},
	}, mutate...)...)
	w.update(h)
}

// bootstrapData makes a Secret as somebody who provides bootstrap data without a config.
func (w *world) bootstrapData(name string, mutate ...func(*corev1.Secret)) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte("#cloud-config\n")},
	}
	for _, m := range mutate {
		m(secret)
	}
	if err := env.Client.Create(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// A Host that is deleted before its bootstrap stays as long as its machine, which would
// wait for ever for data that nobody may read.
func TestDeletedHostReadsItsDataWhileItIsClaimed(t *testing.T) {
	w := newWorld(t)
	r := w.accessReconciler()
	w.bootstrapData("secret-1")
	agent := w.host("host-1")
	w.assign(agent, "secret-1")
	h := agent.Host(t)
	h.Finalizers = []string{infrav1.HostFinalizer}
	w.update(h)
	if err := env.Client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if h = agent.Host(t); h.DeletionTimestamp.IsZero() {
		t.Fatal("the Host is not being deleted")
	}
	user := infrav1.AgentUser(w.namespace, "host-1", testenv.HostID(w.namespace, "host-1"))
	if agents, _ := w.access(r); !slices.Equal(agents, []string{user}) {
		t.Errorf("%v may read the Secret of a Host that is deleted and claimed", agents)
	}
	h.Spec.Claim, h.Spec.Desired = nil, nil
	w.update(h)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	if agents, _ := w.access(r); len(agents) > 0 {
		t.Errorf("%v may read the Secret after the claim", agents)
	}
}

func TestSecretIsReadableWhileItIsNamed(t *testing.T) {
	w := newWorld(t)
	r := w.accessReconciler()
	w.bootstrapData("secret-1")
	first, second := w.host("host-1"), w.host("host-2")
	user := func(host string) string {
		return infrav1.AgentUser(w.namespace, host, testenv.HostID(w.namespace, host))
	}

	if agents, _ := w.access(r); len(agents) > 0 {
		t.Errorf("%v may read the Secret that no host names", agents)
	}
	w.assign(first, "secret-1")
	w.assign(second, "another")
	if agents, _ := w.access(r); !slices.Equal(agents, []string{user("host-1")}) {
		t.Errorf("%v may read the Secret of host-1", agents)
	}

	// The next change waits for others, and not for long.
	h := second.Host(t)
	h.Spec.Desired.BootstrapSecretName = "secret-1"
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: h.Spec.Claim.MachineName}, machine); err != nil {
		t.Fatal(err)
	}
	machine.Spec.Bootstrap.DataSecretName = ptr.To("secret-1")
	w.update(machine)
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

// TestListIsWrittenWhateverItsRoleSays: the API server compares the rules of the Role with the
// rights of the manager when the list changes, and refuses when there is no Role.
func TestListIsWrittenWhateverItsRoleSays(t *testing.T) {
	for what, spoil := range map[string]func(*world, *rbacv1.Role){
		"gone": func(w *world, role *rbacv1.Role) {
			if err := env.Client.Delete(t.Context(), role); err != nil {
				w.t.Fatal(err)
			}
		},
		"wider": func(w *world, role *rbacv1.Role) {
			role.Labels, role.Rules = nil, append(role.Rules, everything)
			w.update(role)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			r := w.accessReconciler()
			w.bootstrapData("secret-1")
			first, second := w.host("host-1"), w.host("host-2")
			w.assign(first, "secret-1")
			if agents, _ := w.access(r); len(agents) != 1 {
				t.Fatalf("%v may read the Secret of host-1", agents)
			}
			role := &rbacv1.Role{}
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.SecretAccessName("secret-1")}, role); err != nil {
				t.Fatal(err)
			}
			spoil(w, role)
			w.assign(second, "secret-1")
			h := first.Host(t)
			h.Spec.Desired.BootstrapSecretName = ""
			w.update(h)
			w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
			if _, result := w.access(r); result.RequeueAfter <= 0 {
				t.Error("it does not look again")
			}
			w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
			want := []string{infrav1.AgentUser(w.namespace, "host-2", testenv.HostID(w.namespace, "host-2"))}
			if agents, _ := w.access(r); !slices.Equal(agents, want) {
				t.Errorf("%v may read the Secret", agents)
			}
		})
	}
}

// TestRoleThatIsThereIsTakenOver has somebody make the Role before the manager does, with
// more rights than a list may give.
func TestRoleThatIsThereIsTakenOver(t *testing.T) {
	w := newWorld(t)
	r := w.accessReconciler()
	w.bootstrapData("secret-1")
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: hostcontroller.SecretAccessName("secret-1")}
	if err := env.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{everything}}); err != nil {
		t.Fatal(err)
	}
	w.assign(w.host("host-1"), "secret-1")
	if agents, _ := w.access(r); len(agents) != 1 { // which looks at the rules
		t.Errorf("%v may read the Secret of host-1", agents)
	}
}

// TestListWithoutALabelIsSweptAway: while no manager ran, a list lost the label by which the
// cache has it, and its hosts named another Secret. One whose hosts still do is made anew, and
// what somebody else has under such a name is left alone.
func TestListWithoutALabelIsSweptAway(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"secret-1", "secret-2"} {
		w.bootstrapData(name)
		w.assign(w.host(fmt.Sprintf("host-%d", i+1)), name)
		if agents, _ := w.accessTo(w.accessReconciler(), name); len(agents) != 1 {
			t.Fatalf("%v may read %s", agents, name)
		}
	}
	binding := func(name string) *rbacv1.RoleBinding {
		t.Helper()
		b := &rbacv1.RoleBinding{}
		key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.SecretAccessName(name)}
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), key, b)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	former := binding("secret-2").UID
	for _, name := range []string{"secret-1", "secret-2"} {
		b := binding(name)
		b.Labels = nil
		w.update(b)
	}
	h := &infrav1.Host{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "host-1"}, h); err != nil {
		t.Fatal(err)
	}
	h.Spec.Desired.BootstrapSecretName = ""
	w.update(h)
	for name, b := range map[string]*rbacv1.RoleBinding{
		"of-a-person": {Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "paul"}}},
		"of-a-role":   {RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}},
	} {
		b.Namespace, b.Name = w.namespace, hostcontroller.SecretAccessName(name)
		if b.RoleRef.Name == "" {
			b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: b.Name}
		}
		if err := env.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	w.runManager(func(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
		r := &hostcontroller.SecretAccessReconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}, Namespace: w.namespace,
		}
		return r.SetupWithManager(ctx, mgr, options)
	})
	poll.True(t, "nobody is left on the list of a Secret that no host names", func() bool { return binding("secret-1").UID == "" })
	poll.True(t, "the list of a Secret that a host names is there again", func() bool {
		b := binding("secret-2")
		_, labelled := b.Labels[infrav1.HostLabel]
		return labelled && b.UID != former && len(b.Subjects) == 1
	})
	for _, name := range []string{"of-a-person", "of-a-role"} {
		if binding(name).UID == "" {
			t.Errorf("the RoleBinding %s is gone", name)
		}
	}
}
