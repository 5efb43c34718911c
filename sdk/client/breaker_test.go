package client_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// TestOnBreaker holds that one outage is told once, however many probes fail, and
// that Forget leaves nothing of a removed extension.
func TestOnBreaker(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Status(http.StatusServiceUnavailable, "down"))
	now := time.Now()
	var told []client.BreakerState
	c := newClient(t, client.Options{
		Now:       func() time.Time { return now },
		OnBreaker: func(handler string, state client.BreakerState) { told = append(told, state) },
	}, hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 0))
	for range 3 {
		var callErr *client.CallError
		if _, err := create(t.Context(), t, c); !errors.As(err, &callErr) || callErr.Reason != client.ReasonHTTPStatus {
			t.Fatalf("got %v", err)
		}
		now = now.Add(time.Hour)
	}
	if want := []client.BreakerState{client.BreakerOpen}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	f.Set(hooktest.Body(`{"status":"Success"}`))
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	if want := []client.BreakerState{client.BreakerOpen, client.BreakerClosed}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	f.Set(hooktest.Drop())
	if _, err := create(t.Context(), t, c); err == nil {
		t.Fatal("the call succeeded")
	}
	c.Forget("xt")
	c.Forget("h.ext")
	if got := c.Breakers(); len(got) != 1 {
		t.Errorf("Forget of another ExtensionConfig left %v", got)
	}
	c.Forget("ext")
	if got := c.Breakers(); len(got) != 0 {
		t.Errorf("Forget left %v", got)
	}
}

// TestForgetIsOfOneConfig holds that Forget leaves an ExtensionConfig whose name ends with the one
// that was removed.
func TestForgetIsOfOneConfig(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Drop())
	c := newClient(t, client.Options{}, hooktest.Handler(hooktest.Config("eu.ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 0))
	if _, err := client.Call(t.Context(), c, capi.BeforeClusterCreate, "h.eu.ext", cluster(), &req{Cluster: *cluster()}); err == nil {
		t.Fatal("the call succeeded")
	}
	c.Forget("ext")
	if got := c.Breakers(); len(got) != 1 {
		t.Errorf("Forget of ext left %v of eu.ext", got)
	}
	c.Forget("eu.ext")
	if got := c.Breakers(); len(got) != 0 {
		t.Errorf("Forget left %v", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanicOfAProbe holds that a handler is called again after a call of it that panicked, which
// somebody above recovers, as controller-runtime does.
func TestPanicOfAProbe(t *testing.T) {
	calls, now := 0, time.Now()
	c := newClient(t, client.Options{
		Now: func() time.Time { return now },
		Transport: func(*http.Transport) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) {
				if calls++; calls == 2 {
					panic("a defect of the transport")
				}
				return nil, errors.New("down")
			})
		},
	}, hooktest.Handler(hooktest.Config("ext", "https://ext.example.com", nil), capi.BeforeClusterCreate, "h", fail, 0))
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			_, _ = create(t.Context(), t, c)
		}()
		now = now.Add(time.Hour)
	}
	if calls != 3 {
		t.Errorf("called %d times, want 3: the call that panicked counts as under way", calls)
	}
}

// TestPanicInAFanOut: a panic in one of several calls is an error of its handler. Nobody above the
// goroutine of the call could recover from it.
func TestPanicInAFanOut(t *testing.T) {
	c := newClient(t, client.Options{
		Transport: func(*http.Transport) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) { panic("a defect of the transport") })
		},
	}, hooktest.Handler(hooktest.Config("ext", "https://ext.example.com", nil), capi.BeforeClusterCreate, "h", ignore, 0))
	_, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
	var panicked *client.PanicError
	if !errors.As(err, &panicked) || panicked.Handler != "h.ext" || len(panicked.Stack) == 0 || !strings.Contains(err.Error(), "a defect of the transport") {
		t.Errorf("got %v, want the panic as an error that policy Ignore does not ignore", err)
	}
}

// TestVanishedHandlerHasNoBreaker: what is known of a handler ends when its extension no longer
// serves it, and not only when the extension is removed.
func TestVanishedHandlerHasNoBreaker(t *testing.T) {
	catalog, handlers := hook.NewCatalog(), registry.New(registry.Options{})
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	config := func() *runtimev1.ExtensionConfig { return hooktest.Config("ext", "https://ext.example.com", nil) }
	if err := handlers.WarmUp(hooktest.Entry(t, hooktest.Handler(config(), capi.BeforeClusterCreate, "h", fail, 0))); err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	c, err := client.New(client.Options{Catalog: catalog, Registry: handlers, Metrics: metrics, Transport: func(*http.Transport) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") })
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = create(t.Context(), t, c)
	if known := c.Breakers(); len(known) != 1 {
		t.Fatalf("the breakers are %+v, want one", known)
	}
	if err := handlers.Set(hooktest.Entry(t, config())); err != nil {
		t.Fatal(err)
	}
	if known := c.Breakers(); len(known) != 0 {
		t.Errorf("the handler is gone, its breaker is not: %+v", known)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.Contains(family.GetName(), "breaker") {
			t.Errorf("the handler is gone, its metric is not: %v", family)
		}
	}
}
