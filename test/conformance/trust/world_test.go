package trust

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/level"

	// The manifests are read by another program: so the cache of `go test` knows
	// when they change.
	_ "github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
	"github.com/slipway-dev/slipway/test/simagent"
)

const (
	module = "github.com/slipway-dev/slipway"
	// namespace is that of the victim, elsewhere that of another tenant.
	namespace, elsewhere = "tenant-a", "tenant-b"
	// victim is a host with bootstrap data, neighbor one in its namespace, stranger one
	// in another.
	victim, neighbor, stranger = "victim", "neighbor", "stranger"
	bootstrapSecret            = "victim-bootstrap"
	clusterName                = "cluster"
	policyName, runName        = "gate", "gate-run"
	formerHostID               = "the-machine-before"
	tokenID, tokenSecret       = "abcdef", "0123456789abcdef"
)

func TestMain(m *testing.M) { judge.Main(m, "../../../bin") }

// world is a management cluster with two tenants.
type world struct {
	*judge.Plane
	t testing.TB
	// hooks and diagnostics are the addresses of the lifecycle engine.
	hooks, diagnostics string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	level.Deep(t)
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := lifecyclev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kit := judge.NewKit()
	slipway, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta2})
	if err != nil {
		t.Fatal(err)
	}
	free, err := shared.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, hooks: fmt.Sprintf("127.0.0.1:%d", free[0]), diagnostics: fmt.Sprintf("127.0.0.1:%d", free[1])}
	lifecycle, err := w.lifecycle(kit)
	if err != nil {
		t.Fatal(err)
	}
	w.Plane, err = judge.Start(t.Context(), judge.Options{Kit: kit, Dir: t.TempDir(), Scheme: scheme, Subjects: []judge.Subject{lifecycle, slipway}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	w.populate()
	return w
}

// lifecycle is the released engine. The CRDs of Cluster API come with it.
func (w *world) lifecycle(kit *judge.Kit) (judge.Subject, error) {
	objects, err := kit.Render(w.t.Context(), module, "config/lifecycle/default")
	if err != nil {
		return judge.Subject{}, err
	}
	crds, err := kit.Render(w.t.Context(), "sigs.k8s.io/cluster-api", "core/config/crd")
	if err != nil {
		return judge.Subject{}, err
	}
	return judge.Subject{
		Name: "slipway-lifecycle", Package: module + "/cmd/slipway-lifecycle", CertDirFlag: "cert-dir",
		Namespace: "slipway-lifecycle-system", ServiceAccount: "slipway-lifecycle", Objects: append(objects, crds...),
		Flags: []string{
			"--extension-address=" + w.hooks, "--diagnostics-address=" + w.diagnostics, "--extension-client-ca-file=" + w.clientCA(), "--drain-delay=0s",
		},
	}, nil
}

// populate makes what the adversaries are after.
func (w *world) populate() {
	w.t.Helper()
	for _, name := range []string{namespace, elsewhere} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: bootstrapSecret, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Type:       clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#cloud-config", "format": "cloud-config"},
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"}, StringData: map[string]string{"password": "secret"}})
	w.token(tokenID, infrav1.HostBootstrapGroup(namespace, victim), nil)
	for name, in := range map[string]string{victim: namespace, neighbor: namespace, stranger: elsewhere} {
		w.create(simagent.Enrolled(in, name))
		w.eventually("the agent of "+name+" gets its rights", func(ctx context.Context) error {
			return errors.Join(
				w.Client.Get(ctx, client.ObjectKey{Namespace: in, Name: host.RoleName(name)}, &rbacv1.RoleBinding{}),
				w.Client.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, &coordinationv1.Lease{}),
			)
		})
	}
	w.gate()
	w.guard()
}

// token makes a bootstrap token that enrolls hosts by a group.
func (w *world) token(id, group string, annotations map[string]string) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Annotations: annotations}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": infrav1.BootstrapGroup + "," + group,
		},
	})
}

// bootstrapKubeconfig is the file that an agent enrolls with, by a token.
func (w *world) bootstrapKubeconfig(t testing.TB, tokenID string) string {
	t.Helper()
	ca := w.Config.CAData
	if len(ca) == 0 {
		var err error
		if ca, err = os.ReadFile(w.Config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {token: %s.%s}}]}`,
		w.Config.Host, base64.StdEncoding.EncodeToString(ca), tokenID, tokenSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// gate makes a policy, and a run of it that waits for an approval.
func (w *world) gate() {
	w.t.Helper()
	steps := []lifecyclev1.Step{{Name: "approve", Approval: &lifecyclev1.ApprovalStep{}}}
	w.create(&lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policyName},
		Spec:       lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterDelete, Steps: steps}}},
	})
	w.create(&clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec: clusterv1.ClusterSpec{
			Paused:            ptr.To(true),
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: clusterName},
		},
	})
	w.create(w.newRun(runName))
}

// newRun is a run, not stored, that waits for an approval.
func (w *world) newRun(name string) *lifecyclev1.LifecycleRun {
	begun := metav1.NewTime(time.Now().Truncate(time.Second))
	return &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: clusterName, PolicyName: policyName, PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce, Hook: lifecyclev1.BeforeClusterDelete, Attempt: 1,
			Steps:    []lifecyclev1.Step{{Name: "approve", Approval: &lifecyclev1.ApprovalStep{}}},
			Progress: []lifecyclev1.StepProgress{{Name: "approve", StartTime: begun}},
		},
	}
}

// clientCA is the file of a CA that has signed nobody's certificate.
func (w *world) clientCA() string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, hooktest.NewCA(w.t).PEM, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.Client.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// eventually waits for what the managers do.
func (w *world) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	poll.Until(w.t, what, func() error {
		if err := w.Failures(); err != nil {
			w.t.Fatal(err)
		}
		return check(w.t.Context())
	})
}

// impersonate returns the configuration of a user, whom the API server takes for it.
func (w *world) impersonate(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// agent is that of a host with an identity.
func (w *world) agent(in, name, hostID string) *rest.Config {
	return w.impersonate(infrav1.AgentUser(in, name, hostID), infrav1.AgentGroup)
}

// user is a person with rights in the namespace.
func (w *world) user(name string, rules ...rbacv1.PolicyRule) *rest.Config {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	w.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	return w.impersonate(name)
}

// bound binds a ClusterRole in a namespace.
func (w *world) bound(name, in, clusterRole string) *rest.Config {
	w.t.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name + "-is-" + clusterRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	return w.impersonate(name)
}

func (w *world) client(config *rest.Config) client.Client {
	w.t.Helper()
	c, err := client.New(config, client.Options{Scheme: w.Client.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// refused says whether an error is an answer of authentication, authorization or admission: an
// attempt that failed for another reason proves nothing.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err)
}
