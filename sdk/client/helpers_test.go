package client_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

type apiObject = runtime.Object

func decodeBody(t testing.TB, r *http.Request, into any) {
	t.Helper()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Error(err)
	}
}
