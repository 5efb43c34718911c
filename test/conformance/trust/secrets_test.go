package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
	"github.com/slipway-dev/slipway/test/simagent"
)

// newRestricted is a management cluster whose administrator grants the manager its rights on
// Secrets namespace by namespace. The hosts of namespace guarded wait for it.
func newRestricted(t *testing.T) *world {
	t.Helper()
	level.Deep(t)
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kit := judge.NewKit()
	kit.Variables = map[string]string{"SLIPWAY_MANAGER_SECRETS_BINDING": "RoleBinding"}
	slipway, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta2})
	if err != nil {
		t.Fatal(err)
	}
	crds, err := kit.Render(t.Context(), "sigs.k8s.io/cluster-api", "core/config/crd")
	if err != nil {
		t.Fatal(err)
	}
	slipway.Objects = append(slipway.Objects, crds...)
	w := &world{t: t}
	if w.Plane, err = judge.Start(t.Context(), judge.Options{Kit: kit, Dir: t.TempDir(), Scheme: scheme, Subjects: []judge.Subject{slipway}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: guarded}})
	return w
}

// TestSecretsByNamespace holds that the manager works in the namespaces in which it was granted
// its rights on Secrets, that it reads none of the others, where it tells what to do, and
// that the command heals what waits.
func TestSecretsByNamespace(t *testing.T) {
	w := newRestricted(t)
	judge.RunCommand(w.t, w.Config, "kubectl create rolebinding slipway-manager-secrets -n "+namespace+" --clusterrole slipway-manager-secrets --serviceaccount slipway-system:slipway-manager")
	granted := simagent.Enrolled(namespace, victim)
	w.create(granted)
	w.serve(t, w.client(w.agent(namespace, victim, granted.Spec.HostID)), granted)
	if told, err := w.forbidden(t.Context(), granted.Name, ""); err != nil || told != "" {
		t.Errorf("where the right is granted it is missed: %s, %v", told, err)
	}
	w.readsOnlyWhereGranted()

	h := w.enrolledOnceGranted()
	withheld := w.client(w.agent(guarded, h.Name, h.Spec.HostID))
	w.create(&corev1.Secret{ObjectMeta: meta(guarded, infrav1.HandOverSignerSecretName), Data: map[string][]byte{infrav1.HandOverSignerSeedKey: make([]byte, 32)}})
	data := w.wanting(t, guarded)
	w.report(withheld, client.ObjectKeyFromObject(h))
	testenv.NewMachinePool(t, w.Client, guarded, "pool", 1)
	command := w.told("the host", h.Name, "Bootstrap")
	if again := w.told("the host's own agent", h.Name, "Serve"); again != command {
		t.Errorf("one namespace takes %q and %q", command, again)
	}
	w.eventually("the pool tells it, too", func(ctx context.Context) error {
		pool := &infrav1.HostMachinePool{}
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: guarded, Name: "pool"}, pool)
		if told := fmt.Sprint(pool.Status.Conditions); err != nil || !strings.Contains(told, command) {
			return fmt.Errorf("%s, %w", told, err)
		}
		return nil
	})
	others := w.readers(t)
	w.tell(others, func(reader) string { return command })
	if err := withheld.Get(t.Context(), client.ObjectKeyFromObject(data), &corev1.Secret{}); !refused(err) {
		t.Errorf("the agent reads what the manager may not: %v", err)
	}

	judge.RunCommand(w.t, w.Config, command)
	w.eventually("the agent reads its bootstrap data", func(ctx context.Context) error {
		return withheld.Get(ctx, client.ObjectKeyFromObject(data), &corev1.Secret{})
	})
	w.eventually("the agent learns who signs hand-overs", func(ctx context.Context) error {
		w.report(withheld, client.ObjectKeyFromObject(h))
		lease := &coordinationv1.Lease{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(h), lease); err != nil || lease.Annotations[infrav1.HandOverSignerAnnotation] == "" {
			return fmt.Errorf("the Lease has %v, %w", lease.Annotations, err)
		}
		return nil
	})
	w.tell(others, func(r reader) string { return r.since })
}

// enrolledOnceGranted has a host ask with a token that counts whom it enrolls, which the manager
// cannot read before somebody grants it.
func (w *world) enrolledOnceGranted() *infrav1.Host {
	w.t.Helper()
	w.token(singleTokenID, infrav1.BootstrapGroupPrefix+guarded, map[string]string{infrav1.TokenUsesAnnotation: "1"})
	key, id := w.newKey()
	csr := w.request("host-first", enrollmentOf("first", id), key)
	w.eventually("the request is filed", func(ctx context.Context) error {
		return w.client(w.withToken(singleTokenID)).Create(ctx, csr.DeepCopy())
	})
	command := w.told("the request", csr.Name, "Enroll")
	if want := "-n " + metav1.NamespaceSystem + " "; !strings.Contains(command, want) {
		w.t.Errorf("%q grants nothing in %s", command, metav1.NamespaceSystem)
	}
	if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil || len(csr.Status.Conditions) > 0 {
		w.t.Errorf("without the right it is decided: %+v, %v", csr.Status.Conditions, err)
	}
	judge.RunCommand(w.t, w.Config, command)
	h := &infrav1.Host{}
	w.eventually("the host is enrolled", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return err
		}
		if len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
			return fmt.Errorf("the request has %+v", csr.Status.Conditions)
		}
		return w.Client.Get(ctx, client.ObjectKey{Namespace: guarded, Name: "first"}, h)
	})
	return h
}

// wanting makes a machine that wants a host of a namespace, and returns its bootstrap data.
func (w *world) wanting(t *testing.T, in string) *corev1.Secret {
	t.Helper()
	testenv.NewCluster(t, w.Client, in)
	data := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "bootstrap-worker", Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
		Type:       clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#cloud-config", "format": "cloud-config"},
	}
	w.create(data)
	testenv.NewMachine(t, w.Client, in, "worker")
	return data
}

// serve has a machine get the host, whose agent reads its bootstrap data.
func (w *world) serve(t *testing.T, agent client.Client, h *infrav1.Host) {
	t.Helper()
	data := w.wanting(t, h.Namespace)
	w.report(agent, client.ObjectKeyFromObject(h))
	w.eventually("the agent reads its bootstrap data where the right is granted", func(ctx context.Context) error {
		return agent.Get(ctx, client.ObjectKeyFromObject(data), &corev1.Secret{})
	})
}

// readsOnlyWhereGranted tries the rights of the manager as they are.
func (w *world) readsOnlyWhereGranted() {
	w.t.Helper()
	w.create(&corev1.Secret{ObjectMeta: meta(guarded, "database"), StringData: map[string]string{"password": "secret"}})
	config, err := w.As(w.t.Context(), "slipway-system", "slipway-manager")
	if err != nil {
		w.t.Fatal(err)
	}
	manager, read := w.client(config), &corev1.Secret{}
	for _, in := range []string{guarded, metav1.NamespaceSystem} {
		if err := manager.Get(w.t.Context(), client.ObjectKey{Namespace: in, Name: "database"}, read); !refused(err) {
			w.t.Fatalf("the manager reads a Secret of %s, where nobody granted it: %v", in, err)
		}
	}
	for _, in := range []string{namespace, "slipway-system"} {
		if err := client.IgnoreNotFound(manager.Get(w.t.Context(), client.ObjectKey{Namespace: in, Name: "database"}, read)); err != nil {
			w.t.Errorf("in namespace %s: %v", in, err)
		}
		if err := manager.List(w.t.Context(), &corev1.SecretList{}, client.InNamespace(in)); !refused(err) {
			w.t.Errorf("the manager lists the Secrets of %s: %v", in, err)
		}
	}
}

// told waits until the manager tells of an object which right is missing, and returns the
// command by which it is granted.
func (w *world) told(what, name, action string) string {
	w.t.Helper()
	var command string
	w.eventually(what+" tells which right is missing", func(ctx context.Context) error {
		note, err := w.forbidden(ctx, name, action)
		_, after, found := strings.Cut(note, "grants it by: ")
		if command = after; !found {
			return errors.Join(errors.New("no event tells it"), err)
		}
		return nil
	})
	return command
}

// forbidden is what an event tells of an object.
func (w *world) forbidden(ctx context.Context, name, action string) (string, error) {
	events := &corev1.EventList{}
	err := w.Client.List(ctx, events)
	for _, e := range events.Items {
		if e.InvolvedObject.Name == name && e.Reason == "SecretsForbidden" && (action == "" || e.Action == action) {
			return e.Message, nil
		}
	}
	return "", err
}
