package webhook_test

import (
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/webhook"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

func TestHostExtensionConfigs(t *testing.T) {
	type spec = runtimev1alpha1.HostExtensionConfigSpec
	at := func(url string) runtimev1.ClientConfig { return runtimev1.ClientConfig{URL: url} }
	good := at("https://example.com")
	port := int32(70000)
	for name, tc := range map[string]struct {
		spec       spec
		annotation string
		want       string
	}{
		"url":             {spec: spec{ClientConfig: at("https://example.com:8443/prefix")}},
		"service":         {spec: spec{ClientConfig: runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Name: "a", Namespace: "b"}}}},
		"both":            {spec: spec{ClientConfig: runtimev1.ClientConfig{URL: "https://a", Service: runtimev1.ServiceReference{Name: "a", Namespace: "b"}}}, want: "url and service exclude each other"},
		"http":            {spec: spec{ClientConfig: at("http://example.com")}, want: `the scheme is "http"`},
		"password":        {spec: spec{ClientConfig: at("https://user:s3cret@example.com")}, want: "user and password are not allowed"},
		"query":           {spec: spec{ClientConfig: at("https://example.com?a=b")}, want: "query parameters"},
		"fragment":        {spec: spec{ClientConfig: at("https://example.com#a")}, want: "fragment"},
		"port":            {spec: spec{ClientConfig: runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Name: "a", Namespace: "b", Port: &port}}}, want: "70000"},
		"caBundle":        {spec: spec{ClientConfig: runtimev1.ClientConfig{URL: "https://a", CABundle: []byte("x")}}, want: "spec.clientConfig.caBundle"},
		"namespaces":      {spec: spec{ClientConfig: good, NamespaceSelector: selector("not a value")}, want: "spec.namespaceSelector"},
		"objects":         {spec: spec{ClientConfig: good, ObjectSelector: selector("not a value")}, want: "spec.objectSelector"},
		"condition":       {spec: spec{ClientConfig: good, MatchCondition: "object.metadata.name.startsWith('a')"}},
		"bad condition":   {spec: spec{ClientConfig: good, MatchCondition: "1 +"}, want: "spec.matchCondition"},
		"other condition": {spec: spec{ClientConfig: good, MatchCondition: "'text'"}, want: "want a bool"},
		"secret":          {spec: spec{ClientConfig: good}, annotation: "ns/name"},
		"bad secret":      {spec: spec{ClientConfig: good}, annotation: "name", want: "<namespace>/<name>"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Skip(t)
			object := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace(t)}, Spec: tc.spec}
			if tc.annotation != "" {
				object.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: tc.annotation}
			}
			err := env.Client.Create(ctx, object)
			expect(t, err, tc.want)
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error repeats the password: %v", err)
			}
		})
	}
	t.Run("name", func(t *testing.T) {
		testenv.Skip(t)
		object := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}, Spec: spec{ClientConfig: good}}
		expect(t, env.Client.Create(ctx, object), "must be a DNS label")
	})
}

type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// TestDeprecationWarning holds that who writes the registration of an extension
// that implements a hook version which is not called is told so by the API server.
func TestDeprecationWarning(t *testing.T) {
	testenv.Skip(t)
	object := &runtimev1alpha1.HostExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: env.Namespace(t)},
		Spec:       runtimev1alpha1.HostExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://example.com"}},
	}
	heard := &warnings{}
	config := rest.CopyConfig(env.Config)
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	object.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name:        "h." + object.Name,
		RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.infrastructure.slipway.dev/v1alpha1", Hook: "BeforeHostClaim"},
	}}
	if err := c.Status().Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	if len(heard.text) != 0 {
		t.Errorf("warned early: %q", heard.text)
	}
	object.Spec.Settings = map[string]string{"a": "b"}
	if err := c.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	if len(heard.text) != 1 || !strings.Contains(heard.text[0], "v1beta1") {
		t.Errorf("warnings %q", heard.text)
	}
}

func TestValidateExtensionConfig(t *testing.T) {
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "a.b", Annotations: map[string]string{
			registry.ObjectSelectorAnnotation: "env=", registry.MatchConditionAnnotation: "1 +",
		}},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://a#b"}},
	}
	errs := webhook.ValidateExtensionConfig(config)
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	want := "metadata.name spec.clientConfig metadata.annotations[runtime.slipway.dev/match-condition]"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("got %s, want %s: %v", got, want, errs)
	}
	config = &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "ok", Annotations: map[string]string{registry.ObjectSelectorAnnotation: "env in (a,b)"}},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://a"}},
	}
	if errs := webhook.ValidateExtensionConfig(config); len(errs) > 0 {
		t.Error(errs)
	}
}

// Without the feature gate none can be made, since nobody would call it; what exists may
// still be changed.
func TestHostExtensionConfigsAreRefusedWithoutTheGate(t *testing.T) {
	object := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "inventory"}}
	object.Spec.ClientConfig = runtimev1.ClientConfig{URL: "https://localhost:9444"}
	off := webhook.HostExtensionConfig{Catalog: hook.NewCatalog(), Off: true}
	if _, err := off.ValidateCreate(t.Context(), object); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "--feature-gates=HostExtensionConfig=true") {
		t.Errorf("err = %v", err)
	}
	if _, err := off.ValidateUpdate(t.Context(), object, object); err != nil {
		t.Errorf("err = %v", err)
	}
}

// TestPortabilityWarnings holds that an ExtensionConfig is warned of whose selection only a plane respects.
func TestPortabilityWarnings(t *testing.T) {
	config := &runtimev1.ExtensionConfig{}
	if warnings := webhook.PortabilityWarnings(config); len(warnings) > 0 {
		t.Errorf("without annotations: %q", warnings)
	}
	config.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "{}", registry.MatchConditionAnnotation: "true"}
	if warnings := webhook.PortabilityWarnings(config); len(warnings) != 2 {
		t.Errorf("with two annotations: %q", warnings)
	}
}
