package admission_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/lifecycle/admission"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// engine is the user of slipway-lifecycle.
const (
	engine          = "system:serviceaccount:" + engineNamespace + ":slipway-lifecycle"
	engineNamespace = "slipway-lifecycle-system"
)

var (
	env *testenv.Env
	// engineClient has the rights of slipway-lifecycle.
	engineClient client.Client
	// cached is what the webhooks read policies with.
	cached client.Reader
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.AddToScheme, func(e *testenv.Env) error {
		env = e
		return serve()
	}))
}

// serve lets the API server call the webhooks, as config/lifecycle configures them, of
// an engine that has no other rights than those of config/lifecycle.
func serve() error {
	ctx := context.Background()
	options := &envtest.WebhookInstallOptions{Paths: []string{"../../../config/lifecycle/webhook/manifests.yaml", "../../../config/lifecycle/webhook/deletion_webhook.yaml"}}
	if err := grantEngine(ctx); err != nil {
		return err
	}
	for _, file := range []string{"admission/secret_policy.yaml", "admission/job_policy.yaml", "admission/namespace_policy.yaml", "rbac/job_validation.yaml", "rbac/step_roles.yaml"} {
		if err := install(ctx, file); err != nil {
			return err
		}
	}
	own := env.As(engine)
	var err error
	if engineClient, err = client.New(own, client.Options{Scheme: env.Scheme}); err != nil {
		return err
	}
	held, err := rights.New(own)
	if err != nil {
		return err
	}
	_, err = env.ServeWebhooks(own, options, func(mgr ctrl.Manager) error {
		cached = mgr.GetClient()
		return admission.SetupWithManager(mgr, "", held)
	})
	return err
}

func grantEngine(ctx context.Context) error {
	if err := env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: engineNamespace}}); err != nil {
		return err
	}
	return env.Grant(ctx, engine, config.Lifecycle, "lifecycle/rbac/role.yaml")
}

// install creates the objects of a file of the release.
func install(ctx context.Context, file string) error {
	data, err := os.ReadFile("../../../config/lifecycle/" + file)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			return err
		}
		if kind := object.GetKind(); kind == "Role" || kind == "RoleBinding" {
			object.SetNamespace(engineNamespace)
		}
		if err := env.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// user makes a user who may do what rules say in a namespace.
func user(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	env.GrantIn(t, name, namespace, rules...)
	c, err := client.New(env.As(name), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func allow(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}
