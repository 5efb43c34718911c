package extensionconfig_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/reconcilers/extensionconfig"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const succeeded = `{"status":"Success"}`

func pass(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
	return nil, nil
}

// upstreamReader stands for the kubeadm control plane manager, which reads
// ExtensionConfigs that another manager reconciles.
type upstreamReader struct {
	runtimeclient.Client
	registered *runtimev1.ExtensionConfig
}

func (r *upstreamReader) IsReady() bool { return true }

func (r *upstreamReader) Register(config *runtimev1.ExtensionConfig) error {
	r.registered = config
	return nil
}

func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return errors.Join(extension.Handle(s, capi.BeforeClusterCreate, "z", pass), extension.Handle(s, capi.BeforeClusterCreate, "a", pass))
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ca"}, Data: map[string][]byte{"ca.crt": ext.CA.PEM}}
	w.create(secret)
	config := w.config("ext", ext.URL, nil)
	config.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: w.namespace + "/ca"}
	w.create(config)
	rt, _ := w.manager(extensionconfig.Upstream, 0)
	w.eventually("discovered", config, func() bool {
		return condition(config, "Discovered") == "True Discovered" && condition(config, "Paused") == "False NotPaused"
	})
	w.until("the registry is ready", rt.Registry.Ready)
	if got := config.Status.Handlers; len(got) != 2 || got[0].Name != "a."+config.Name || got[1].Name != "z."+config.Name {
		t.Errorf("handlers %v", got)
	}
	if string(config.Spec.ClientConfig.CABundle) != string(ext.CA.PEM) {
		t.Error("the CA was not injected")
	}
	if got := condition(config, runtimev1alpha1.HooksUpToDateCondition); got != "True UpToDate" {
		t.Errorf("HooksUpToDate: %q", got)
	}
	if got := config.GetV1Beta1Conditions(); len(got) != 1 || got[0].Type != runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition || got[0].Status != "True" {
		t.Errorf("conditions of v1beta1: %v", got)
	}
	if err := call(t.Context(), rt, w.cluster(nil)); err != nil {
		t.Error(err)
	}

	reader := &upstreamReader{}
	_, err := (&upstream.Reconciler{Client: env.Client, RuntimeClient: reader, ReadOnly: true}).
		Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
	if err != nil || reader.registered == nil {
		t.Errorf("upstream's read-only controller: %v", err)
	}

	if err := env.Client.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.until("unregistered", func() bool { return len(rt.Registry.Uses()) == 0 })
}

// TestDeadExtension holds that an extension which was never reached blocks what it
// selects, nothing else, and not the manager.
func TestDeadExtension(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, hooktest.Drop())
	config := w.config("dead", f.URL, f.CA.PEM)
	config.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "guarded"}
	w.create(config)
	rt, _ := w.manager(extensionconfig.Upstream, 0)
	w.eventually("not discovered", config, func() bool {
		return strings.HasPrefix(condition(config, "Discovered"), "False NotDiscovered Error in discovery")
	})
	w.until("the registry is ready", rt.Registry.Ready)
	guarded := w.cluster(map[string]string{"guarded": ""})
	var unresolved *registry.UnresolvedError
	if err := call(t.Context(), rt, guarded); !errors.As(err, &unresolved) || unresolved.Config != config.Name {
		t.Errorf("the guarded cluster: %v, want an UnresolvedError", err)
	}
	if err := call(t.Context(), rt, w.cluster(nil)); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	f.Set(discovery(hooktest.Body(succeeded), "h"))
	w.eventually("discovered", config, func() bool { return condition(config, "Discovered") == "True Discovered" })
	w.until("the guarded cluster passes", func() bool { return call(t.Context(), rt, guarded) == nil })
}

// TestLastKnownGood holds that handlers stay registered while discovery fails, also
// over a restart of the manager, and that what the spec says counts at once.
func TestLastKnownGood(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
	config := w.config("flapping", f.URL, f.CA.PEM)
	w.create(config)
	_, stop := w.manager(extensionconfig.Upstream, 50*time.Millisecond)
	w.eventually("discovered", config, func() bool { return condition(config, "Discovered") == "True Discovered" })
	f.Set(hooktest.Status(http.StatusServiceUnavailable, "down"))
	failing := func() bool {
		return strings.Contains(condition(config, "Discovered"), "False NotDiscovered") && len(config.Status.Handlers) == 1
	}
	w.eventually("failing with its handlers", config, failing)
	version, before := config.ResourceVersion, f.Requests()
	w.until("another failure", func() bool { return f.Requests() > before+1 })
	w.eventually("the same text for the same failure", config, func() bool { return config.ResourceVersion == version })
	stop()

	rt, _ := w.manager(extensionconfig.Upstream, 50*time.Millisecond)
	w.until("the registry is ready", rt.Registry.Ready)
	if err := call(t.Context(), rt, w.cluster(nil)); err == nil || !strings.Contains(err.Error(), "HTTP status 503") {
		t.Errorf("after the restart: %v, want that the last known handler is called", err)
	}
	config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "namespace"}}
	if err := env.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.until("the narrowed selector counts", func() bool { return call(t.Context(), rt, w.cluster(nil)) == nil })
}

// TestSlowExtension holds that one that hangs holds back neither the start of the
// manager nor the discovery of others.
func TestSlowExtension(t *testing.T) {
	w := newWorld(t)
	var ended atomic.Bool
	slow := hooktest.StartFaults(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended.Store(true)
	})
	hanging := w.config("slow", slow.URL, slow.CA.PEM)
	hanging.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "guarded"}
	w.create(hanging)
	good := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
	config := w.config("good", good.URL, good.CA.PEM)
	w.create(config)
	rt, _ := w.manager(extensionconfig.Upstream, 0)
	w.eventually("the other is discovered", config, func() bool { return condition(config, "Discovered") == "True Discovered" })
	w.until("the registry is ready", rt.Registry.Ready)
	if ended.Load() {
		t.Error("it waited for the discovery that hangs")
	}
	if err := call(t.Context(), rt, w.cluster(nil)); err != nil {
		t.Errorf("a call of the other: %v", err)
	}
	if err := call(t.Context(), rt, w.cluster(map[string]string{"guarded": ""})); err == nil {
		t.Error("a call for an object of the extension that hangs succeeded")
	}
}

func TestLyingExtension(t *testing.T) {
	handler := func(fields string) string {
		return `{"status":"Success","handlers":[{"name":"h","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}` + fields + `}]}`
	}
	tests := map[string]struct{ body, want string }{
		"hook":      {strings.Replace(handler(""), "BeforeClusterCreate", "Unheard", 1), "hook Unheard of hooks.runtime.cluster.x-k8s.io/v1alpha1 is not in the catalog"},
		"timeout":   {handler(`,"timeoutSeconds":999`), "timeoutSeconds 999"},
		"policy":    {handler(`,"failurePolicy":"Maybe"`), `failurePolicy "Maybe"`},
		"name":      {strings.Replace(handler(""), `"h"`, `"H.x"`, 1), "invalid name"},
		"twice":     {strings.Replace(handler(""), `]`, `,{"name":"h","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}}]`, 1), "is there twice"},
		"novel":     {`{"status":"Failure","message":"` + strings.Repeat("é", 100_000) + `"}`, "ééé"},
		"no status": {`{}`, "unknown status"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := hooktest.StartFaults(t, hooktest.Body(tt.body))
			config := w.config("lying", f.URL, f.CA.PEM)
			w.create(config)
			rt, _ := w.manager(extensionconfig.Upstream, 0)
			w.eventually("not discovered", config, func() bool {
				got := condition(config, "Discovered")
				return strings.HasPrefix(got, "False") && strings.Contains(got, tt.want) && len(got) < 3000
			})
			w.until("the registry is ready", rt.Registry.Ready)
			if err := call(t.Context(), rt, w.cluster(nil)); err == nil || len(config.Status.Handlers) != 0 {
				t.Errorf("%v, handlers %v", err, config.Status.Handlers)
			}
		})
	}
}

// TestReplicasAgree runs two managers without leader election against an extension
// that names its handlers in another order each time.
func TestReplicasAgree(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "a", "b", "c", "d", "e", "f"))
	config := w.config("random", f.URL, f.CA.PEM)
	w.create(config)
	w.manager(extensionconfig.Upstream, 30*time.Millisecond)
	w.manager(extensionconfig.Upstream, 30*time.Millisecond)
	w.eventually("discovered", config, func() bool { return len(config.Status.Handlers) == 6 })
	// Both have written what they would write once each has discovered it.
	before := f.Requests()
	w.until("both discover again", func() bool { return f.Requests() > before+10 })
	w.eventually("settled", config, func() bool { return true })
	version, before := config.ResourceVersion, f.Requests()
	w.until("many more discoveries", func() bool { return f.Requests() > before+30 })
	w.eventually("no further write", config, func() bool { return true })
	if config.ResourceVersion != version {
		t.Errorf("the status flaps: resourceVersion %s became %s", version, config.ResourceVersion)
	}
}

func TestPaused(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
	config := w.config("paused", f.URL, f.CA.PEM)
	config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w.create(config)
	rt, _ := w.manager(extensionconfig.Upstream, 0)
	w.eventually("paused", config, func() bool { return strings.HasPrefix(condition(config, "Paused"), "True") })
	w.until("the registry is ready", rt.Registry.Ready)
	if err := call(t.Context(), rt, w.cluster(nil)); err == nil || !strings.Contains(err.Error(), "paused") || f.Requests() != 0 {
		t.Errorf("while paused: %v, %d requests", err, f.Requests())
	}
	config.Annotations = nil
	if err := env.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.eventually("discovered", config, func() bool { return condition(config, "Discovered") == "True Discovered" })
}

// TestExtensionOfAnotherManager holds that an object which the watch filter leaves to another
// manager is neither changed nor called, though the Secret with its CA names it.
func TestExtensionOfAnotherManager(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
	configs := map[string]*runtimev1.ExtensionConfig{}
	for suffix, manager := range map[string]string{"another": "another-manager", "own": w.namespace} {
		config := w.config(suffix, f.URL, nil)
		config.Labels[clusterv1.WatchLabel] = manager
		config.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: w.namespace + "/ca"}
		w.create(config)
		configs[suffix] = config
	}
	rt, stop := w.manager(extensionconfig.Upstream, 0)
	w.eventually("no Secret", configs["own"], func() bool { return strings.Contains(condition(configs["own"], "Discovered"), "there is no Secret") })
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ca"}, Data: map[string][]byte{"ca.crt": f.CA.PEM}})
	w.eventually("discovered", configs["own"], func() bool { return condition(configs["own"], "Discovered") == "True Discovered" })
	if err := call(t.Context(), rt, w.cluster(nil)); err != nil {
		t.Error(err)
	}
	stop() // the reconciles that the Secret caused have ended
	another, version := configs["another"], configs["another"].ResourceVersion
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(another), another); err != nil || another.ResourceVersion != version {
		t.Errorf("it was changed (%v): %+v", err, another.Status)
	}
}

func TestCAInjection(t *testing.T) {
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
	config := w.config("ca", f.URL, nil)
	config.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: w.namespace + "/ca"}
	w.create(config)
	w.manager(extensionconfig.Upstream, 0)
	says := func(what, text string) {
		t.Helper()
		w.eventually(what, config, func() bool { return strings.Contains(condition(config, "Discovered"), text) })
	}
	says("missing", "there is no Secret "+w.namespace+"/ca")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ca"}, Data: map[string][]byte{"tls.crt": f.CA.PEM}}
	w.create(secret)
	says("no key", "key ca.crt of Secret "+w.namespace+"/ca: it is missing or empty")
	key := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	for _, step := range []struct{ ca, want string }{
		{string(f.CA.PEM) + key, "it holds a PRIVATE KEY; only certificates may be there"},
		{"garbage", "no certificate in PEM form"},
		{string(hooktest.NewCA(t).PEM), "its certificate is not trusted"},
		{string(f.CA.PEM), "True Discovered"},
	} {
		secret.Data = map[string][]byte{"ca.crt": []byte(step.ca)}
		if err := env.Client.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		says(step.want, step.want)
		if strings.Contains(string(config.Spec.ClientConfig.CABundle), "PRIVATE") {
			t.Fatal("a private key was published")
		}
	}
}

// TestBreakerIsACondition holds that a handler which is left alone shows, and that
// it shows when it is back.
func TestBreakerIsACondition(t *testing.T) {
	for name, wrap := range map[string]func(client.Client) client.Client{
		"cache in time": func(c client.Client) client.Client { return c },
		"cache behind": func(c client.Client) client.Client {
			return &lateCache{Client: c, first: map[client.ObjectKey]*runtimev1.ExtensionConfig{}}
		},
	} {
		t.Run(name, func(t *testing.T) { breakerIsACondition(t, wrap) })
	}
}

func breakerIsACondition(t *testing.T, wrap func(client.Client) client.Client) {
	t.Helper()
	w := newWorld(t)
	f := hooktest.StartFaults(t, discovery(hooktest.Status(http.StatusServiceUnavailable, "full"), "h"))
	config := w.config("breaker", f.URL, f.CA.PEM)
	w.create(config)
	rt, _ := w.managerWith(extensionconfig.Upstream, 0, wrap)
	available := func(what, prefix string) {
		t.Helper()
		w.eventually(what, config, func() bool {
			return strings.HasPrefix(condition(config, runtimev1alpha1.HandlersAvailableCondition), prefix)
		})
	}
	available("discovered", "True Available")
	// the registry may be filled a moment after the status says so, and refuses until then
	w.until("the call reaches the extension", func() bool {
		err := call(t.Context(), rt, w.cluster(nil))
		return err != nil && strings.Contains(err.Error(), "HTTP status 503")
	})
	available("left alone", "False BackingOff cannot call handler h."+config.Name+" of hook BeforeClusterCreate: HTTP status 503")
	f.Set(discovery(hooktest.Body(succeeded), "h"))
	w.until("the call succeeds", func() bool { return call(t.Context(), rt, w.cluster(nil)) == nil })
	available("back", "True Available")
}

// TestHostExtensionConfig holds that our kind is served by the same code, with its
// selectors.
func TestHostExtensionConfig(t *testing.T) {
	w := newWorld(t)
	catalog := hook.NewCatalog()
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return extension.Handle(s, host.BeforeHostClaim, "h", func(context.Context, *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
			return nil, nil
		})
	})
	config := &runtimev1alpha1.HostExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: w.name("host"), Labels: map[string]string{clusterv1.WatchLabel: w.namespace}},
		Spec: runtimev1alpha1.HostExtensionConfigSpec{
			ClientConfig:   runtimev1.ClientConfig{URL: ext.URL, CABundle: ext.CA.PEM},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}}},
			MatchCondition: `object.metadata.name != "c"`,
		},
	}
	w.create(config)
	rt, _ := w.manager(extensionconfig.Host, 0)
	w.eventually("discovered", config, func() bool { return condition(config, "Discovered") == "True Discovered" })
	w.until("the registry is ready", rt.Registry.Ready)
	if got := condition(config, runtimev1alpha1.HooksUpToDateCondition); !strings.HasPrefix(got, "True") {
		t.Errorf("HooksUpToDate: %q", got)
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		want   int
	}{
		"gpu": {map[string]string{"rack": "a"}, 1},
		"c":   {map[string]string{"rack": "a"}, 0},
		"x":   {nil, 0},
	} {
		object := w.cluster(tt.labels)
		object.Name = name
		got, err := rt.Client.Handlers(t.Context(), host.BeforeHostClaim, object)
		if err != nil || len(got) != tt.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if data, err := json.Marshal(config.Status.Conditions); err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}

// TestSelectorsThatCannotBeRead shows what is wrong with the selection of objects
// where one looks for it, and refuses every object.
func TestSelectorsThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct{ annotation, value, want string }{
		"selector":  {registry.ObjectSelectorAnnotation, "env in (", "annotation " + registry.ObjectSelectorAnnotation},
		"condition": {registry.MatchConditionAnnotation, "1 +", "match condition"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := hooktest.StartFaults(t, discovery(hooktest.Body(succeeded), "h"))
			config := w.config("bad", f.URL, f.CA.PEM)
			config.Annotations = map[string]string{tt.annotation: tt.value}
			w.create(config)
			rt, _ := w.manager(extensionconfig.Upstream, 0)
			w.eventually("it says so", config, func() bool {
				got := condition(config, "Discovered")
				return strings.HasPrefix(got, "False") && strings.Contains(got, tt.want)
			})
			var unresolved *registry.UnresolvedError
			w.until("calls are refused", func() bool { return errors.As(call(t.Context(), rt, w.cluster(nil)), &unresolved) })
		})
	}
}

// TestFromHostExtensionConfig holds that selectors stay typed, and that one which
// cannot be read is named.
func TestFromHostExtensionConfig(t *testing.T) {
	config := &runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	config.Spec.MatchCondition = "true"
	// An annotation of the other kind has no meaning here.
	config.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "rack=b"}
	entry, err := extensionconfig.FromHostExtensionConfig(config)
	if err != nil || entry.ObjectSelector.String() != "rack=a" || entry.NamespaceSelector != nil || entry.MatchCondition != "true" || entry.Kind != "HostExtensionConfig" {
		t.Errorf("got %+v, %v", entry, err)
	}
	for field, spoil := range map[string]**metav1.LabelSelector{
		"spec.objectSelector": &config.Spec.ObjectSelector, "spec.namespaceSelector": &config.Spec.NamespaceSelector,
	} {
		good := *spoil
		*spoil = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}}
		if entry, err := extensionconfig.FromHostExtensionConfig(config); err == nil || !strings.Contains(err.Error(), field) || entry.ObjectSelector != nil {
			t.Errorf("got %+v, %v, want an entry of all objects and an error that names %s", entry, err, field)
		}
		*spoil = good
	}
}
