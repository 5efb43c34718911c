package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func catalog(t *testing.T) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOwnServerConforms(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return extension.Handle(s, capi.BeforeClusterCreate, "create", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			return nil, nil
		})
	})
	hooktest.Conformance(t, conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog(t)})
}

func TestCarelessExtensionFails(t *testing.T) {
	var n atomic.Int64
	f := hooktest.StartFaults(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "discovery") {
			_, _ = w.Write([]byte(`{"status":"Success","handlers":[{"name":"h","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}}]}`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"Success","message":"%d"}`, n.Add(1))
	})
	report, err := conformance.Check(t.Context(), conformance.Options{URL: f.URL, CABundle: f.CA.PEM, Catalog: catalog(t)})
	if err != nil {
		t.Fatal(err)
	}
	text := report.String()
	for _, want := range []string{"FAIL determinism/h", "FAIL bad input: not JSON/h", "ok   call/h"} {
		if !report.Failed() || !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
