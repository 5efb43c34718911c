package host_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// watchHandOvers runs the controller of hand-overs, with its cache, until the test ends.
func (w *world) watchHandOvers() {
	w.t.Helper()
	w.runManager(func(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
		r := &hostcontroller.HandOverReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}}
		return r.SetupWithManager(ctx, mgr, options)
	})
}

// runManager runs a controller with the rights of the manager and its cache, of one namespace,
// until the test ends.
func (w *world) runManager(setUp func(context.Context, ctrl.Manager, controller.Options) error) {
	w.t.Helper()
	mgr, err := ctrl.NewManager(asManager, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}, ByObject: labelled(w.t)},
		// The priority queue can block when it is shut down while a worker waits for it.
		Controller: controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	if err := setUp(ctx, mgr, controller.Options{SkipNameValidation: ptr.To(true)}); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the manager failed: %v", err)
		}
	})
}

// labelled has the cache hold the Roles and RoleBindings that it holds in slipway-manager.
func labelled(t *testing.T) map[client.Object]cache.ByObject {
	t.Helper()
	ofHosts, err := labels.NewRequirement(infrav1.HostLabel, selection.Exists, nil)
	if err != nil {
		t.Fatal(err)
	}
	selected := cache.ByObject{Label: labels.NewSelector().Add(*ofHosts)}
	handOvers := cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, infrav1.HandOverSecretName)}
	return map[client.Object]cache.ByObject{&rbacv1.Role{}: selected, &rbacv1.RoleBinding{}: selected, &corev1.Secret{}: handOvers}
}

// everything is more than the manager may do, and so more than it may grant.
var everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// TestHandOverTakesItsNamesBack has somebody take the label off, by which the cache has the
// Role and the RoleBinding, while an approval is withdrawn, and has others in their place.
func TestHandOverTakesItsNamesBack(t *testing.T) {
	w, agent, _ := movable(t)
	secret := w.requestHandOver(target(t))
	w.watchHandOvers()
	get := func(o client.Object) client.Object {
		t.Helper()
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), o)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	binding := func() *rbacv1.RoleBinding { return get(&rbacv1.RoleBinding{}).(*rbacv1.RoleBinding) }
	// Its Host has moved away.
	moved := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: infrav1.AgentUser(w.namespace, "host-9", "key")}
	b := binding()
	b.Subjects = append(b.Subjects, moved)
	w.update(b)
	// What was added to the Role is more than the manager may do.
	widened := get(&rbacv1.Role{}).(*rbacv1.Role)
	widened.Rules = append(widened.Rules, everything)
	for _, o := range []client.Object{widened, binding()} {
		o.SetLabels(nil)
		w.update(o)
	}
	h := agent.Host(t)
	h.Spec.Approval = infrav1.HostApprovalDenied
	w.update(h)
	poll.True(t, "the label is back, and the host that is denied off the list", func() bool {
		_, labelled := get(&rbacv1.Role{}).GetLabels()[infrav1.HostLabel]
		return labelled && slices.Equal(binding().Subjects, []rbacv1.Subject{moved})
	})

	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "nobody reads a hand-over that is not there", func() bool {
		return !w.readable(secret) && slices.Equal(binding().Subjects, []rbacv1.Subject{moved})
	})
	if err := env.Client.Delete(t.Context(), binding()); err != nil {
		t.Fatal(err)
	}
	foreign := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret.Name}, Subjects: []rbacv1.Subject{moved}}
	foreign.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	if err := env.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	h = agent.Host(t)
	h.Spec.Approval = infrav1.HostApprovalApproved
	w.update(h)
	again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret.Name, Labels: secret.Labels}, Type: secret.Type, Data: secret.Data}
	if err := env.Client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the RoleBinding is the manager's", func() bool {
		b := binding()
		return b.RoleRef.Kind == "Role" && len(b.Subjects) == 1 && b.Subjects[0].Name == infrav1.AgentUser(w.namespace, "host-1", testenv.HostID(w.namespace, "host-1"))
	})
}

// Nobody touches the Secret when an approval is withdrawn, nor when the Role is gone: the
// controller has to see it by itself.
func TestRightsOnAHandOverAreWatched(t *testing.T) {
	w, agent, _ := movable(t)
	secret := w.requestHandOver(target(t))
	w.watchHandOvers()
	eventually := func(what string, holds func() bool) {
		t.Helper()
		poll.True(t, what, holds)
	}
	role := func() *rbacv1.Role {
		t.Helper()
		role := &rbacv1.Role{}
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), role)); err != nil {
			t.Fatal(err)
		}
		return role
	}
	readers := func() int {
		t.Helper()
		binding := &rbacv1.RoleBinding{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
			t.Fatal(err)
		}
		return len(binding.Subjects)
	}
	approve := func(approval infrav1.HostApproval) {
		t.Helper()
		h := agent.Host(t)
		h.Spec.Approval = approval
		w.update(h)
	}
	approve(infrav1.HostApprovalDenied)
	eventually("a host that is denied is off the list", func() bool { return readers() == 0 })
	approve(infrav1.HostApprovalApproved)
	eventually("a host that is approved again is on the list", func() bool { return readers() == 1 })
	approve(infrav1.HostApprovalDenied)
	eventually("a host that is denied again is off the list", func() bool { return readers() == 0 })
	before := role()
	if err := env.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	eventually("a Role that was deleted is there again", func() bool { return role().UID != "" && role().UID != before.UID })
}

// behind is a client whose cache has Hosts as they were.
type behind struct {
	client.Client
	hosts infrav1.HostList
}

func (b *behind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if hosts, ok := list.(*infrav1.HostList); ok {
		b.hosts.DeepCopyInto(hosts)
		return nil
	}
	return b.Client.List(ctx, list, options...)
}

// TestCacheBehindGivesNoHandOver has the cache hold a Host that was deleted for good, whose
// agent nobody would take off the list later.
func TestCacheBehindGivesNoHandOver(t *testing.T) {
	w, _, _ := movable(t)
	deleted := w.host("host-2")
	w.reconcile(deleted)
	secret := w.requestHandOver("")
	old := &behind{Client: managed}
	if err := managed.List(t.Context(), &old.hosts, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), deleted.Host(t)); err != nil {
		t.Fatal(err)
	}
	if h, _ := w.reconcile(deleted); h != nil {
		t.Fatal("the Host that was deleted stays")
	}
	r := &hostcontroller.HandOverReconciler{Client: old, APIReader: managed, Recorder: &events.FakeRecorder{}, Clock: w.clock}
	reconcile := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(secret)}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
			t.Fatal(err)
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != infrav1.AgentUser(w.namespace, "host-1", testenv.HostID(w.namespace, "host-1")) {
			t.Errorf("on the list: %v", binding.Subjects)
		}
	}
	reconcile()
	if err := env.Client.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret.Name}}); err != nil {
		t.Fatal(err)
	}
	reconcile()
}

// TestHandOverTakesBackWhatWasWidened has somebody add a rule that the manager could not
// grant, and a label, which would have the manager write that rule.
func TestHandOverTakesBackWhatWasWidened(t *testing.T) {
	w, _, _ := movable(t)
	secret := w.requestHandOver(target(t))
	role := &rbacv1.Role{}
	get := func() {
		t.Helper()
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), role); err != nil {
			t.Fatal(err)
		}
	}
	get()
	role.Rules = append(role.Rules, everything)
	role.Labels["x"] = "y"
	w.update(role)
	w.host("host-2")
	w.reconcileHandOver()
	if get(); len(role.Rules) != 1 || len(role.Labels) != 1 {
		t.Errorf("the Role has %v, %v", role.Rules, role.Labels)
	}
}

// TestForeignRoleBindings has RoleBindings of other Roles where the manager has its own. What
// one binds can't be changed, and to update one takes the rights it gives.
func TestForeignRoleBindings(t *testing.T) {
	w, agent, _ := movable(t)
	w.reconcile(agent)
	secret := w.requestHandOver(target(t))
	get := func(name string) *rbacv1.RoleBinding {
		t.Helper()
		b := &rbacv1.RoleBinding{}
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, b)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	foreign := func(name string) {
		t.Helper()
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{infrav1.HostLabel: ""}}}
		b.Subjects = get(name).Subjects
		if err := env.Client.Delete(t.Context(), b.DeepCopy()); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
		if err := env.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(name string) {
		t.Helper()
		if b := get(name); b.RoleRef.Name != name || len(b.Subjects) != 1 {
			t.Errorf("%s binds %v to %v", name, b.Subjects, b.RoleRef)
		}
	}
	foreign(secret.Name)
	w.reconcileHandOver()
	w.reconcileHandOver()
	ours(secret.Name)
	name := hostcontroller.RoleName(agent.Key.Name)
	foreign(name)
	w.reconcile(agent)
	w.reconcile(agent)
	ours(name)

	free := w.host("host-2")
	w.reconcile(free)
	foreign(secret.Name)
	if err := env.Client.Delete(t.Context(), free.Host(t)); err != nil {
		t.Fatal(err)
	}
	if h, _ := w.reconcile(free); h != nil {
		t.Error("a Host is not deleted while another Role is bound in the place of the list")
	}
	if get(secret.Name).UID != "" {
		t.Error("the RoleBinding is left")
	}
	foreign(secret.Name)
	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcileHandOver()
	if get(secret.Name).UID != "" {
		t.Error("the RoleBinding outlives the Secret")
	}
}
