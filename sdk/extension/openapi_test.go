package extension_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/extension"
)

// TestOpenAPIIsGeneratedWhenAskedFor holds that the OpenAPI document is not generated for each
// handler that is registered, and that it has the hooks of those registered last.
func TestOpenAPIIsGeneratedWhenAskedFor(t *testing.T) {
	s, err := extension.New(extension.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	register := func() {
		n++
		if err := handle(s, fmt.Sprint("h", n), answerNil); err != nil {
			t.Fatal(err)
		}
	}
	document := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi/v3", nil))
		return w
	}
	if strings.Contains(document().Body.String(), "beforeclustercreate") {
		t.Error("the document has a hook that is not served")
	}
	register()
	w := document()
	if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), "beforeclustercreate") {
		t.Errorf("%d: %.200s", w.Code, w.Body)
	}
	// A document takes some three thousand.
	if allocations := testing.AllocsPerRun(5, register); allocations > 1000 {
		t.Errorf("a handler takes %.0f allocations", allocations)
	}
}
