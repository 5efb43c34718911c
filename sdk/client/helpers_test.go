package client_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

type (
	apiObject = runtime.Object
	req       = hooksv1.BeforeClusterCreateRequest
	resp      = hooksv1.BeforeClusterCreateResponse
)

func succeed(context.Context, *req) (*resp, error) { return nil, nil }

// dialInstead connects to another address than asked for.
func dialInstead(asked, address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, wanted string) (net.Conn, error) {
		if wanted == asked {
			wanted = address
		}
		return (&net.Dialer{}).DialContext(ctx, network, wanted)
	}
}

func decodeBody(t testing.TB, r *http.Request, into any) {
	t.Helper()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Error(err)
	}
}
