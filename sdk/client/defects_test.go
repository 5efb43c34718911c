package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	fail   = runtimev1.FailurePolicyFail
	ignore = runtimev1.FailurePolicyIgnore
)

func create(ctx context.Context, t testing.TB, c *client.Client) (*hooksv1.BeforeClusterCreateResponse, error) {
	t.Helper()
	return client.Call(ctx, c, capi.BeforeClusterCreate, "h.ext", cluster(), &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster()})
}

func faulty(t testing.TB, policy runtimev1.FailurePolicy, timeout int32, fault http.HandlerFunc) (*hooktest.Faults, *client.Client) {
	t.Helper()
	f := hooktest.StartFaults(t, fault)
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", policy, timeout)
	return f, newClient(t, client.Options{}, config)
}

func TestFaultsHaveTypes(t *testing.T) {
	tests := map[string]struct {
		fault http.HandlerFunc
		want  client.Reason
	}{
		"503":             {hooktest.Status(http.StatusServiceUnavailable, "starting"), client.ReasonHTTPStatus},
		"redirect":        {hooktest.Redirect("https://169.254.169.254/"), client.ReasonHTTPStatus},
		"hang":            {hooktest.Hang(), client.ReasonTimeout},
		"dropped":         {hooktest.Drop(), client.ReasonUnreachable},
		"truncated":       {hooktest.Truncate(), client.ReasonUnreachable},
		"not JSON":        {hooktest.Body("<html>"), client.ReasonInvalidResponse},
		"half decodable":  {hooktest.Body(`{"status":"Success","message":5}`), client.ReasonInvalidResponse},
		"other kind":      {hooktest.Body(`{"kind":"BeforeClusterDeleteResponse","status":"Success"}`), client.ReasonInvalidResponse},
		"other version":   {hooktest.Body(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1","status":"Success"}`), client.ReasonInvalidResponse},
		"two documents":   {hooktest.Body(`{"status":"Success"}{"status":"Success"}`), client.ReasonInvalidResponse},
		"duplicate names": {hooktest.Body(`{"status":"Success","status":"Success"}`), client.ReasonInvalidResponse},
		"endless":         {hooktest.Endless(0), client.ReasonTooLarge},
		"gzip bomb":       {hooktest.GzipBomb(1 << 20), client.ReasonInvalidResponse},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			timeout := int32(30)
			if tt.want == client.ReasonTimeout {
				timeout = 1
			}
			_, c := faulty(t, fail, timeout, tt.fault)
			response, err := create(t.Context(), t, c)
			var callErr *client.CallError
			if !errors.As(err, &callErr) || callErr.Reason != tt.want || response != nil {
				t.Fatalf("got response %v and error %v, want a CallError with reason %s", response, err, tt.want)
			}
			_, c = faulty(t, ignore, timeout, tt.fault)
			response, err = create(t.Context(), t, c)
			if err != nil {
				t.Fatalf("policy Ignore: %v", err)
			}
			if response.Status != hooksv1.ResponseStatusSuccess || response.RetryAfterSeconds != 0 || response.Message != "" {
				t.Errorf("policy Ignore: the response is %+v, want a clean success", response)
			}
		})
	}
}

func TestIgnoreNeverSwallowsRejectionOrCancellation(t *testing.T) {
	_, c := faulty(t, ignore, 30, hooktest.Body(`{"status":"Failure","message":"no"}`))
	var rejected *client.RejectedError
	if _, err := create(t.Context(), t, c); !errors.As(err, &rejected) || rejected.Message != "no" {
		t.Errorf("got %v, want a RejectedError", err)
	}
	arrived := make(chan struct{}, 1)
	_, c = faulty(t, ignore, 30, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := create(ctx, t, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	if open := c.Breakers(); len(open) != 0 {
		t.Errorf("the cancellation opened the breaker: %+v", open)
	}
}

func TestRetryAfterIsClamped(t *testing.T) {
	for asked, want := range map[int]int32{-5: 1, 0: 0, 30: 30, 1<<31 - 1: 3600} {
		_, c := faulty(t, fail, 30, hooktest.Body(fmt.Sprintf(`{"status":"Success","retryAfterSeconds":%d}`, asked)))
		response, err := create(t.Context(), t, c)
		if err != nil {
			t.Fatal(err)
		}
		if response.RetryAfterSeconds != want {
			t.Errorf("asked for %d, got %d, want %d", asked, response.RetryAfterSeconds, want)
		}
	}
}

func TestHostileAnswersKeepMemorySmall(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"256 MiB": hooktest.Endless(256 << 20), "gzip": hooktest.GzipBomb(256 << 20)} {
		t.Run(name, func(t *testing.T) {
			_, c := faulty(t, fail, 10, fault)
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := create(t.Context(), t, c); err == nil {
				t.Fatal("the answer was accepted")
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
		})
	}
}

func TestBackoffSendsOneProbePerInterval(t *testing.T) {
	var now atomic.Int64
	f := hooktest.StartFaults(t, hooktest.Status(http.StatusServiceUnavailable, "no"))
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 1)
	reg := registry.New(registry.Options{})
	c := newClient(t, client.Options{Registry: reg, Now: func() time.Time { return time.Unix(0, now.Load()) }}, config)
	call := func() error { _, err := create(t.Context(), t, c); return err }
	for range 50 {
		if call() == nil {
			t.Fatal("the call succeeded")
		}
	}
	if n := f.Requests(); n != 1 {
		t.Fatalf("50 calls were %d requests, want 1", n)
	}
	var callErr *client.CallError
	if err := call(); !errors.As(err, &callErr) || callErr.Reason != client.ReasonBackoff || callErr.RetryAfter <= 0 {
		t.Fatalf("got %v, want a CallError with reason Backoff", err)
	}
	now.Add(int64(time.Second))
	for range 5 {
		_ = call()
	}
	if n := f.Requests(); n != 2 {
		t.Fatalf("after the pause there were %d requests, want one probe more", n)
	}
	now.Add(int64(time.Second))
	_ = call()
	if n := f.Requests(); n != 2 {
		t.Errorf("the second pause was not longer than the first")
	}
	config.Spec.Settings = map[string]string{"changed": "yes"}
	if err := reg.Set(hooktest.Entry(t, config)); err != nil {
		t.Fatal(err)
	}
	f.Set(hooktest.Body(`{"status":"Success"}`))
	if err := call(); err != nil {
		t.Errorf("a change of the configuration did not reset the breaker: %v", err)
	}
	if open := c.Breakers(); len(open) != 0 {
		t.Errorf("the breaker is not closed: %+v", open)
	}
}

func TestFanOutIsConcurrentAndOrdered(t *testing.T) {
	// No call is answered before all have come: one after the other would time out.
	const calls = 20
	var come atomic.Int32
	all := make(chan struct{})
	f := hooktest.StartFaults(t, func(w http.ResponseWriter, r *http.Request) {
		if come.Add(1) == calls {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
			return
		}
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		_, _ = fmt.Fprintf(w, `{"status":"Success","message":%q,"retryAfterSeconds":%d}`, name, map[string]int{"h03": 7, "h11": 20}[name])
	})
	config := hooktest.Config("ext", f.URL, f.CA.PEM)
	var want []string
	for i := range calls {
		name := fmt.Sprintf("h%02d", calls-1-i)
		want = append([]string{name}, want...)
		config = hooktest.Handler(config, capi.BeforeClusterCreate, name, fail, 5)
	}
	c := newClient(t, client.Options{}, config)
	result, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, name := range want {
		messages = append(messages, name+".ext: "+name)
	}
	if result.Response.Message != strings.Join(messages, ", ") {
		t.Errorf("the messages are %q, want them in the order of the names", result.Response.Message)
	}
	if !result.Blocked() || result.RetryAfter != 7*time.Second || result.Response.RetryAfterSeconds != 7 {
		t.Errorf("retry after %s, want the shortest wish of 7 s", result.RetryAfter)
	}
}

func TestFanOutErrorsAreDeterministic(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Drop())
	config := hooktest.Config("ext", f.URL, f.CA.PEM)
	for _, name := range []string{"b", "a"} {
		config = hooktest.Handler(config, capi.BeforeClusterCreate, name, fail, 5)
	}
	const cause = " of hook BeforeClusterCreate: the connection was closed before the answer was complete"
	const want = "2 of 2 handlers of hook BeforeClusterCreate failed: cannot call handler a.ext" + cause + "; cannot call handler b.ext" + cause
	for range 5 {
		_, err := client.CallAll(t.Context(), newClient(t, client.Options{}, config), capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
		if err == nil || err.Error() != want {
			t.Fatalf("got  %v\nwant %s", err, want)
		}
	}
}

func TestDeadlineBoundsTheFanOut(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Hang())
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 30)
	c := newClient(t, client.Options{Deadline: time.Second}, config)
	_, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
	var callErr *client.CallError
	if !errors.As(err, &callErr) || callErr.Reason != client.ReasonTimeout {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestRequestIsNotChangedAndSettingsMerge(t *testing.T) {
	var got hooksv1.BeforeClusterCreateRequest
	f := hooktest.StartFaults(t, func(w http.ResponseWriter, r *http.Request) {
		decodeBody(t, r, &got)
		_, _ = w.Write([]byte(`{"status":"Success"}`))
	})
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 1)
	config.Spec.Settings = map[string]string{"a": "config", "b": "config"}
	request := &hooksv1.BeforeClusterCreateRequest{CommonRequest: hooksv1.CommonRequest{Settings: map[string]string{"b": "request"}}}
	if _, err := client.Call(t.Context(), newClient(t, client.Options{}, config), capi.BeforeClusterCreate, "h.ext", cluster(), request); err != nil {
		t.Fatal(err)
	}
	if got.Settings["a"] != "config" || got.Settings["b"] != "request" || got.Kind != "BeforeClusterCreateRequest" {
		t.Errorf("the extension got settings %v and kind %q", got.Settings, got.Kind)
	}
	if len(request.Settings) != 1 || request.Kind != "" {
		t.Errorf("the caller's request was changed: %+v", request)
	}
}
