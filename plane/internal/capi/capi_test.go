package capi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// offline is the address of no API server; managers are built, not started.
var offline = &rest.Config{Host: "https://127.0.0.1:1"}

func mustScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s, err := newScheme(coreTypes, bootstrapTypes, controlPlaneTypes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A manager whose caches are not filled yet must not end the plane before that gives up itself.
func TestManagersWaitAsLongAsThePlane(t *testing.T) {
	if got := managerOptions(mustScheme(t), nil).Controller.CacheSyncTimeout; got < component.DefaultReadyTimeout {
		t.Errorf("caches have %s to be filled, the component has %s", got, component.DefaultReadyTimeout)
	}
}

func TestAPIVersion(t *testing.T) {
	tests := map[string]struct {
		labels map[string]string
		want   string
	}{
		"newest contract wins": {map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}, "infra.dev/v1beta2"},
		"older contract":       {map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha4_v1beta1"}, "infra.dev/v1beta1"},
		"highest version":      {map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta10_v1beta2_v1alpha1"}, "infra.dev/v1beta10"},
		"stable beats beta":    {map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v2beta1"}, "infra.dev/v1"},
		"unknown contract":     {map[string]string{"cluster.x-k8s.io/v1alpha4": "v1alpha4"}, ""},
		"no label":             {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "hosts.infra.dev", Labels: tt.labels}}
			get := apiVersionGetter(fake.NewClientBuilder().WithScheme(mustScheme(t)).WithObjects(crd).Build())
			got, err := get(t.Context(), schema.GroupKind{Group: "infra.dev", Kind: "Host"})
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestMountsAreApart registers the same path for two managers.
func TestMountsAreApart(t *testing.T) {
	mux := http.NewServeMux()
	server := webhook.NewServer(webhook.Options{WebhookMux: mux})
	for _, name := range []string{"one", "two"} {
		m := newMount(server, name)
		m.Register("/convert", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(name + " " + r.URL.Path))
		}))
		if _, pattern := m.WebhookMux().Handler(httptest.NewRequest(http.MethodPost, "/convert", nil)); pattern != "/convert" {
			t.Errorf("%s: a builder would register /convert again", name)
		}
	}
	for path, want := range map[string]string{"/one/convert": "one /convert", "/two/convert": "two /convert"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Body.String() != want {
			t.Errorf("%s answers %q, want %q", path, w.Body, want)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("/convert without a manager answers %d", w.Code)
	}
}
