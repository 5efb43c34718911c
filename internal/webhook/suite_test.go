package webhook_test

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/webhook"
)

var (
	env *testenv.Env
	ctx = context.Background()
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error {
		env = e
		if err := installPolicies(); err != nil {
			return err
		}
		return serve()
	}))
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, infrav1.AddToScheme, v1beta1.AddToScheme,
		runtimev1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// serve lets the API server call the webhooks, as config/webhook configures it.
func serve() error {
	options := &env.WebhookOptions
	address, err := env.ServeWebhooks(env.Config, options, func(mgr ctrl.Manager) error { return webhook.SetupWithManager(mgr, webhook.Options{}) })
	if err != nil {
		return err
	}
	return convertBy("https://"+address+"/convert", options.LocalServingCAData)
}

// convertBy lets the API server call the conversion webhook, as an installation of
// the provider does: controller-gen writes CRDs without it.
func convertBy(url string, ca []byte) error {
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := env.Client.List(ctx, &crds); err != nil {
		return err
	}
	for _, crd := range crds.Items {
		if crd.Spec.Group != infrav1.GroupVersion.Group {
			continue
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
			},
		}
		if err := env.Client.Update(ctx, &crd); err != nil {
			return err
		}
	}
	return awaitConversion()
}

// awaitConversion returns once the API server converts: it takes a change of a CRD
// up after a moment.
func awaitConversion() error {
	return poll.Wait(func() error {
		probe := &v1beta1.HostCluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: metav1.NamespaceDefault}}
		probe.Spec.ControlPlaneEndpoint.Host = "10.0.0.1"
		if err := env.Client.Create(ctx, probe); err != nil {
			return err // the schemas are being set up again
		}
		probe.Status.Ready = true
		if err := env.Client.Status().Update(ctx, probe); err != nil {
			return err
		}
		stored := &infrav1.HostCluster{}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(probe), stored); err != nil {
			return err
		}
		if stored.Status.Initialization.Provisioned == nil {
			return errors.New("no conversion yet")
		}
		return nil
	})
}
