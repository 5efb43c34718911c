package extension_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// aborting is a connection that is gone when the response is written.
type aborting struct{ *httptest.ResponseRecorder }

func (aborting) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

// TestSpanEndsWithAPanic holds that the span of a call ends also when its answer ends in a panic,
// which net/http recovers.
func TestSpanEndsWithAPanic(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	s, err := extension.New(extension.Options{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	if err != nil {
		t.Fatal(err)
	}
	if err := handle(s, "h", answerNil); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, s.Path(capi.BeforeClusterCreate, "h"), strings.NewReader("{}"))
		s.Handler().ServeHTTP(aborting{httptest.NewRecorder()}, r)
	}()
	if started, ended := len(recorder.Started()), len(recorder.Ended()); started != 1 || ended != 1 {
		t.Errorf("%d spans began and %d ended, want 1 and 1", started, ended)
	}
}
