package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// notice is a hook that does not block, although its response could carry the wish.
var notice = hook.Define[req, resp](schema.GroupVersion{Group: "hooks.example.com", Version: "v1"}, "Notice", hook.Meta{NonBlocking: true})

// TestNonBlockingHooksHoldNobodyBack lets an extension that is not of this SDK ask for
// a retry of a hook that does not block: neither the outcome nor a response tells it.
func TestNonBlockingHooksHoldNobodyBack(t *testing.T) {
	catalog := newCatalog(t)
	if err := catalog.Add(notice); err != nil {
		t.Fatal(err)
	}
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","message":"wait","retryAfterSeconds":30}`))
	c := newClient(t, client.Options{Catalog: catalog}, hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), notice, "h", fail, 5))
	result, err := client.CallAll(t.Context(), c, notice, cluster(), &req{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Blocked() || result.Response.RetryAfterSeconds != 0 || result.Answers[0].Response.RetryAfterSeconds != 0 {
		t.Errorf("the caller is held back: %+v, %+v", result.Response, result.Answers[0].Response)
	}
	if result.Response.Message != "wait" {
		t.Errorf("the message is %q", result.Response.Message)
	}
	response, err := client.Call(t.Context(), c, notice, "h.ext", cluster(), &req{})
	if err != nil || response.RetryAfterSeconds != 0 {
		t.Errorf("got %+v, %v", response, err)
	}
}

// TestRetryOfNonBlockingHookIsRefused tells the author of a handler who asks for a
// retry where nobody waits, instead of losing the wish.
func TestRetryOfNonBlockingHookIsRefused(t *testing.T) {
	catalog := newCatalog(t)
	if err := catalog.Add(notice); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return extension.Handle(s, notice, "h", func(context.Context, *req) (*resp, error) { return nil, extension.RetryAfter(time.Second, "wait") })
	})
	c := newClient(t, client.Options{Catalog: catalog}, hooktest.Handler(hooktest.Config("ext", ext.URL, ext.CA.PEM), notice, "h", fail, 5))
	_, err := client.Call(t.Context(), c, notice, "h.ext", cluster(), &req{})
	var rejected *client.RejectedError
	if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, "asks for a retry") {
		t.Errorf("got %v, want a refusal that tells of the retry", err)
	}
}

// signing adds a header to each request, in place, as transports of others do.
type signing struct {
	next  http.RoundTripper
	value string
}

func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Add("Authorization", s.value)
	return s.next.RoundTrip(r)
}

// TestHeadersOfTransportsAreTheirOwn lets a caller's transport write into the headers
// of its requests: no other request carries what it wrote.
func TestHeadersOfTransportsAreTheirOwn(t *testing.T) {
	seen := make(chan []string, 1)
	f := hooktest.StartFaults(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Values("Authorization")
		_, _ = w.Write([]byte(`{"status":"Success"}`))
	})
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), notice, "h", fail, 5)
	catalog := newCatalog(t)
	if err := catalog.Add(notice); err != nil {
		t.Fatal(err)
	}
	wrapped := newClient(t, client.Options{Catalog: catalog, Transport: func(base *http.Transport) http.RoundTripper { return signing{base, "Bearer of-a"} }}, config)
	plain := newClient(t, client.Options{Catalog: catalog}, config)
	for _, call := range []struct {
		client *client.Client
		want   string
	}{{wrapped, "Bearer of-a"}, {wrapped, "Bearer of-a"}, {plain, ""}, {wrapped, "Bearer of-a"}} {
		response, err := client.Call(t.Context(), call.client, notice, "h.ext", cluster(), &req{})
		if err != nil || response.Status != hooksv1.ResponseStatusSuccess {
			t.Fatalf("%+v, %v", response, err)
		}
		if got := strings.Join(<-seen, ", "); got != call.want {
			t.Errorf("the request carries %q, want %q", got, call.want)
		}
	}
}
