package program

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// A list that answers with 200 and an object that cannot be decoded counts as failed. No
// metric of client-go or controller-runtime shows it.
func TestListThatCannotBeDecodedIsCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			http.Error(w, "no watch list", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},` +
			`"items":[{"metadata":{"name":"a","namespace":"n","creationTimestamp":"2026-01-01t00:00:00Z"}}]}`))
	}))
	defer server.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	options := CacheOptions("")
	options.Scheme, options.Mapper = scheme.Scheme, mapper
	c, err := cache.New(&rest.Config{Host: server.URL}, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }()
	if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	count := watchFailures.WithLabelValues("*v1.ConfigMap")
	poll.Until(t, "two failures are counted", func() error {
		if testutil.ToFloat64(count) < 2 {
			return errors.New("fewer")
		}
		return nil
	})
	if c := CacheOptions("n"); len(c.DefaultNamespaces) != 1 {
		t.Errorf("a cache of one namespace has %v", c.DefaultNamespaces)
	}
}
