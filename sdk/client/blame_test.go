package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestRejectionOfAnyBytesIsNotIgnored lets a handler refuse with a text that is not
// UTF-8, under the policy Ignore.
func TestRejectionOfAnyBytesIsNotIgnored(t *testing.T) {
	for name, err := range map[string]error{"refused": errors.New("quota \xff used up"), "blocked": extension.RetryAfter(time.Minute, "wait \xff")} {
		t.Run(name, func(t *testing.T) {
			ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
				return extension.Handle(s, capi.BeforeClusterCreate, "h", func(context.Context, *req) (*resp, error) { return nil, err })
			})
			c := newClient(t, client.Options{}, hooktest.Handler(hooktest.Config("ext", ext.URL, ext.CA.PEM), capi.BeforeClusterCreate, "h", ignore, 5))
			response, err := create(t.Context(), t, c)
			var rejected *client.RejectedError
			if !errors.As(err, &rejected) && (response == nil || response.RetryAfterSeconds != 60) {
				t.Errorf("got %+v, %v", response, err)
			}
		})
	}
}

// TestOurDeadlineIsNotTheirFault calls more handlers than there are slots until the
// deadline of all ends, which leaves a loaded machine time to give one of them the slot.
// Under Ignore those that had no turn, or not all of their time, are ignored; under Fail
// their errors say so, and their breakers stay closed.
func TestOurDeadlineIsNotTheirFault(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Hang())
	for policy, fails := range map[string]bool{"Ignore": false, "Fail": true} {
		t.Run(policy, func(t *testing.T) {
			config := hooktest.Config("ext", f.URL, f.CA.PEM)
			for _, name := range []string{"cut", "queued"} {
				p := ignore
				if fails {
					p = fail
				}
				config = hooktest.Handler(config, capi.BeforeClusterCreate, name, p, 10)
			}
			c := newClient(t, client.Options{MaxConcurrent: 1, Deadline: 3 * time.Second}, config)
			result, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
			switch {
			case !fails && err != nil:
				t.Errorf("all handlers are to be ignored, got %v", err)
			case !fails:
				for _, answer := range result.Answers {
					if answer.Ignored == nil || answer.Response.Status != hooksv1.ResponseStatusSuccess {
						t.Errorf("%s: %+v", answer.Name, answer)
					}
				}
			default:
				for _, want := range []string{"cut.ext of hook BeforeClusterCreate: it had not answered when the deadline", "queued.ext of hook BeforeClusterCreate: its turn did not come"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q", err, want)
					}
				}
			}
			if open := c.Breakers(); len(open) != 0 {
				t.Errorf("breakers are open: %+v", open)
			}
		})
	}
	t.Run("a handler that had its time", func(t *testing.T) {
		config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
		c := newClient(t, client.Options{Deadline: 4990 * time.Millisecond}, config)
		_, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, cluster(), &hooksv1.BeforeClusterCreateRequest{})
		if err == nil || !strings.Contains(err.Error(), "no answer within 5s") || len(c.Breakers()) != 1 {
			t.Errorf("got %v and breakers %+v, want it to be blamed", err, c.Breakers())
		}
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", ignore, 10)
		c := newClient(t, client.Options{}, config)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := create(ctx, t, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		if open := c.Breakers(); len(open) != 0 {
			t.Errorf("breakers are open: %+v", open)
		}
	})
}

// TestOneObjectDoesNotStopTheOthers calls a handler that panics for one object, and a
// handler that fails for all.
func TestOneObjectDoesNotStopTheOthers(t *testing.T) {
	now := time.Now()
	panics := map[string]bool{"poison": true}
	calls := map[string]int{}
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return extension.Handle(s, capi.BeforeClusterCreate, "h", func(_ context.Context, r *req) (*resp, error) {
			calls[r.Cluster.Name]++
			if panics[r.Cluster.Name] || panics["all"] {
				panic("nil map")
			}
			return nil, nil
		})
	})
	config := hooktest.Handler(hooktest.Config("ext", ext.URL, ext.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
	c := newClient(t, client.Options{Now: func() time.Time { return now }}, config)
	call := func(name string) error {
		o := cluster()
		o.Name = name
		_, err := client.Call(t.Context(), c, capi.BeforeClusterCreate, "h.ext", o, &hooksv1.BeforeClusterCreateRequest{Cluster: *o})
		return err
	}
	for range 20 {
		if call("poison") == nil {
			t.Fatal("the call that panics succeeded")
		}
		if err := call("good"); err != nil {
			t.Fatalf("another object: %v", err)
		}
	}
	if calls["poison"] != 1 || calls["good"] != 20 {
		t.Errorf("calls %v, want one of the object that fails and all of the other", calls)
	}
	if open := c.Breakers(); len(open) != 1 || open[0].Failures != 1 {
		t.Errorf("got %+v, want that one object is left alone", open)
	}
	now = now.Add(time.Second)
	panics["poison"] = false
	if err := call("poison"); err != nil || len(c.Breakers()) != 0 {
		t.Errorf("after its pause: %v, %+v", err, c.Breakers())
	}

	panics["all"] = true
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		_ = call(name)
	}
	if calls["c"] != 1 || calls["d"]+calls["e"] != 0 {
		t.Errorf("calls %v, want that a handler which fails for three objects in a row is left alone for all", calls)
	}
	panics["all"] = false
	now = now.Add(time.Second)
	if err := call("d"); err != nil {
		t.Errorf("the probe: %v", err)
	}
	if err := call("e"); err != nil {
		t.Errorf("after the probe: %v", err)
	}
	// What is not called for again is forgotten in the end.
	now = now.Add(time.Hour)
	if open := c.Breakers(); len(open) != 0 {
		t.Errorf("got %+v", open)
	}
}

// TestNothingIsAnError calls a hook for no object.
func TestNothingIsAnError(t *testing.T) {
	_, c := faulty(t, fail, 30, hooktest.Body(`{"status":"Success"}`))
	var none *clusterv1.Cluster
	if _, err := client.Call(t.Context(), c, capi.BeforeClusterCreate, "h.ext", nil, &hooksv1.BeforeClusterCreateRequest{}); err == nil {
		t.Error("a call for nil was accepted")
	}
	if _, err := client.CallAll(t.Context(), c, capi.BeforeClusterCreate, none, &hooksv1.BeforeClusterCreateRequest{}); err == nil {
		t.Error("a call for a nil pointer was accepted")
	}
}
