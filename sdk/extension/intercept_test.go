package extension_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestInterceptorsWrapHandlers follows a call through the interceptors of the server
// and of its handler, the first one outermost, and lets them see all of it.
func TestInterceptorsWrapHandlers(t *testing.T) {
	var steps []string
	step := func(name string) extension.Interceptor {
		return func(next extension.Func) extension.Func {
			return func(ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
				steps = append(steps, name+" "+call.Handler)
				response, err := next(ctx, call)
				steps = append(steps, fmt.Sprintf("%s after: %v", name, err))
				return response, err
			}
		}
	}
	var seen extension.Call
	look := func(next extension.Func) extension.Func {
		return func(ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
			seen = *call
			call.Request.(*request).Cluster.Name += "-seen"
			return next(ctx, call)
		}
	}
	s := newServer(t, extension.Options{Interceptors: []extension.Interceptor{step("a"), step("b")}})
	err := errors.Join(
		handle(s, "h", func(_ context.Context, r *request) (*response, error) {
			steps = append(steps, r.Cluster.Name)
			return nil, extension.RetryAfter(time.Second, "wait")
		}, extension.WithInterceptors(step("c")), extension.WithInterceptors(look)),
		handle(s, "other", answerNil))
	if err != nil {
		t.Fatal(err)
	}
	w := post(s, createPath, `{"cluster":{"metadata":{"namespace":"team-a","name":"demo"}}}`, "Runtime-Request-Id", "id", "X-Tenant", "a")
	const after = " after: retry after 1s: wait"
	if want := []string{"a h", "b h", "c h", "demo-seen", "c" + after, "b" + after, "a" + after}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	if !strings.Contains(w.Body.String(), `"retryAfterSeconds":1`) {
		t.Errorf("the answer is %s", w.Body)
	}
	want := hook.ObjectReference{Kind: "Cluster", Namespace: "team-a", Name: "demo"}
	if seen.Handler != "h" || seen.RequestID != "id" || seen.Object != want || seen.Hook.Hook != "BeforeClusterCreate" || seen.Header.Get("X-Tenant") != "a" {
		t.Errorf("the interceptor sees %+v", seen)
	}
	steps = nil
	hooktest.Call(t, s, capi.BeforeClusterCreate, "other", &request{})
	hooktest.Call(t, s, capi.Discovery, "", &hooksv1.DiscoveryRequest{})
	if want := []string{"a other", "b other", "b after: <nil>", "a after: <nil>", "a ", "b ", "b after: <nil>", "a after: <nil>"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
}

// TestInterceptorsAnswer lets interceptors answer instead of their handler: what they
// say counts, and what is no answer is a failure.
func TestInterceptorsAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  func(next extension.Func, ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error)
		code    int
		status  hooksv1.ResponseStatus
		message string
	}{
		"error": {func(extension.Func, context.Context, *extension.Call) (hooksv1.ResponseObject, error) {
			return nil, errors.New("tenant b may not")
		}, http.StatusOK, hooksv1.ResponseStatusFailure, "tenant b may not"},
		"success": {func(extension.Func, context.Context, *extension.Call) (hooksv1.ResponseObject, error) {
			return nil, nil
		},
			http.StatusOK, hooksv1.ResponseStatusSuccess, ""},
		"other response": {func(extension.Func, context.Context, *extension.Call) (hooksv1.ResponseObject, error) {
			return &hooksv1.BeforeClusterDeleteResponse{}, nil
		}, http.StatusOK, hooksv1.ResponseStatusFailure, "no response of hook BeforeClusterCreate"},
		"other request": {func(next extension.Func, ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
			call.Request = &hooksv1.BeforeClusterDeleteRequest{}
			return next(ctx, call)
		}, http.StatusOK, hooksv1.ResponseStatusFailure, "none of hook BeforeClusterCreate"},
		"panic": {func(extension.Func, context.Context, *extension.Call) (hooksv1.ResponseObject, error) {
			panic("secret")
		},
			http.StatusInternalServerError, hooksv1.ResponseStatusFailure, "panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, extension.Options{})
			called := false
			if err := handle(s, "h", func(context.Context, *request) (*response, error) { called = true; return nil, nil },
				extension.WithInterceptors(func(next extension.Func) extension.Func {
					return func(ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
						return tt.answer(next, ctx, call)
					}
				})); err != nil {
				t.Fatal(err)
			}
			w := post(s, createPath, "{}")
			if body := w.Body.String(); called || w.Code != tt.code || !strings.Contains(body, `"status":"`+string(tt.status)+`"`) || !strings.Contains(body, tt.message) {
				t.Errorf("called: %t, HTTP status %d: %s", called, w.Code, body)
			}
		})
	}
}

func TestInterceptorsAreValidated(t *testing.T) {
	nothing := func(extension.Func) extension.Func { return nil }
	for name, interceptor := range map[string]extension.Interceptor{"nil": nil, "returns nil": nothing} {
		if _, err := extension.New(extension.Options{Interceptors: []extension.Interceptor{interceptor}}); err == nil {
			t.Errorf("%s: the server was made", name)
		}
		if err := handle(newServer(t, extension.Options{}), "h", answerNil, extension.WithInterceptors(interceptor)); err == nil {
			t.Errorf("%s: the handler was registered", name)
		}
	}
}

// TestStatusTellsTheHandlers reads the page for people after some calls.
func TestStatusTellsTheHandlers(t *testing.T) {
	s := newServer(t, extension.Options{Ready: func(context.Context) error { return errors.New("caches are empty") }})
	err := errors.Join(
		handle(s, "quota", func(_ context.Context, r *request) (*response, error) {
			switch r.Cluster.Name {
			case "fails":
				return nil, errors.New("a text of the handler")
			case "waits":
				return nil, extension.RetryAfter(time.Second, "wait")
			}
			return nil, nil
		}, extension.WithTimeout(5*time.Second), extension.WithFailurePolicy(hooksv1.FailurePolicyIgnore)),
		handle(s, "unused", answerNil))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"passes", "fails", "waits", "passes"} {
		post(s, strings.TrimSuffix(createPath, "h")+"quota", `{"cluster":{"metadata":{"name":"`+name+`"}}}`)
	}
	page := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/statusz", nil))
		return w
	}
	w := page(http.MethodGet)
	rows := map[string][]string{}
	for line := range strings.Lines(w.Body.String()) {
		if fields := strings.Fields(line); len(fields) > 0 {
			rows[fields[0]] = fields
		}
	}
	if got, want := strings.Join(rows["quota"], " "), "quota BeforeClusterCreate v1alpha1 5s Ignore 4 1 1 "; !strings.HasPrefix(got, want) || strings.Count(got, " ago") != 2 {
		t.Errorf("got %q, want %q and two times", got, want)
	}
	if got, want := strings.Join(rows["unused"], " "), "unused BeforeClusterCreate v1alpha1 10s Fail 0 0 0 never never"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if body := w.Body.String(); !strings.Contains(body, "Ready: not serving") || strings.Contains(body, "a text of the handler") {
		t.Errorf("the page is %s", body)
	}
	if w := page(http.MethodPost); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST of the page: HTTP status %d", w.Code)
	}
}
