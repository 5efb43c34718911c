package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	kjson "sigs.k8s.io/json"
)

// checks of one handler after a first call that was answered, in the order of the
// report. Each goes with a section of the guidelines for authors.
var checks = []struct {
	name string
	// hook limits the check to one hook; empty for all.
	hook string
	run  func(context.Context, *handler) outcome
	// once says that one request is enough.
	once bool
}{
	{"timeout", "", inTime, false},
	{"latency", "", soon, false},
	{"payload", "", small, false},
	{"idempotence", "", idempotent, false},
	{"determinism", "", deterministic, false},
	{"concurrency", "", concurrent, false},
	{"response", "", ofTheHook, false},
	{"retry", "", sensibleRetry, false},
	{"patches", "GeneratePatches", validPatches, false},
	{"reordering", "GeneratePatches", reordered, false},
	{"variables", "DiscoverVariables", validVariables, false},
	{"upgrade plan", "GenerateUpgradePlan", validPlan, false},
	{"updates in place", "CanUpdateMachine", validUpdates, false},
	{"updates in place", "CanUpdateMachineSet", validUpdates, false},
	{"later versions", "", toleratesUnknownFields, false},
	{"support", "", supported, true},
	{"failure policy", "", failurePolicy, true},
	{"bad input: not JSON", "", badInput("<html>"), true},
	{"bad input: wrong type", "", badInput(`{"settings":5}`), true},
	{"bad input: empty body", "", badInput(""), true},
	{"bad input: open document", "", badInput(`{"settings":{`), true},
	{"unknown handler", "", unknownHandler, true},
	{"still serves", "", stillServes, true},
}

// exercised finds a handler that did nothing of what it is for: then the checks before say nothing.
func exercised(called calls) outcome {
	const how = "; give requests that it acts on (slipway check extension --requests DIR)"
	refused, patched, promised := 0, 0, 0
	for _, h := range called.all() {
		response := h.definition.NewResponse()
		if err := json.Unmarshal(h.answer, response); err != nil {
			continue // the check of the response tells
		}
		if response.GetStatus() == hooksv1.ResponseStatusFailure {
			refused++
		}
		if patches, ok := response.(*hooksv1.GeneratePatchesResponse); ok && len(patches.Items) > 0 {
			patched++
		}
		if updates, err := h.updates(); err == nil {
			if updates == nil || slices.ContainsFunc(updates, func(u update) bool { return u.patch.IsDefined() }) {
				promised++
			}
		}
	}
	switch {
	case refused == len(called.handlers):
		return warned("not exercised: every request was answered with a Failure" + how)
	case called.handlers[0].Hook.Hook == "GeneratePatches" && patched == 0:
		return warned("not exercised: no template was patched" + how)
	case promised == 0:
		return warned("not exercised: nothing is updated in place" + how)
	}
	return outcome{}
}

func inTime(_ context.Context, h *handler) outcome {
	if h.took > h.Timeout {
		return failed("the answer took %s, more than the timeout of %s", h.took.Round(time.Millisecond), h.Timeout)
	}
	return outcome{}
}

// patience of a caller with one handler: every reconcile of an object waits for all.
const patience = time.Second

func soon(_ context.Context, h *handler) outcome {
	if h.took > patience {
		return warned("the answer took %s: each reconcile of an object waits for it; do what takes long elsewhere and ask to be called again", h.took.Round(time.Millisecond))
	}
	return outcome{}
}

// largeAnswer is far above what an example needs, and a 20th of what callers read.
const largeAnswer = 1 << 20

func small(_ context.Context, h *handler) outcome {
	if len(h.answer) > largeAnswer {
		return warned("the answer has %d bytes; one to a large object may pass the limit of callers, 20 MiB", len(h.answer))
	}
	return outcome{}
}

func idempotent(ctx context.Context, h *handler) outcome {
	_, err := h.post(ctx, h.request)
	return outcome{err: err}
}

func deterministic(ctx context.Context, h *handler) outcome {
	if err := h.sameAnswer(ctx, h.request); err != nil {
		return failed("the same request again: %w", err)
	}
	return outcome{}
}

// concurrentCalls is what a manager with its default of workers makes at once.
const concurrentCalls = 10

// concurrent calls for one object, and for another one between them, whose answers must not be mixed up.
func concurrent(ctx context.Context, h *handler) outcome {
	other := *h
	if other.request = renamed(h.request); other.request != nil {
		var err error
		if other.answer, err = h.post(ctx, other.request); err != nil {
			other.request = nil
		}
	}
	var group errgroup.Group // one that fails cuts off no other
	for n := range concurrentCalls {
		called := h
		if n%2 == 1 && other.request != nil {
			called = &other
		}
		group.Go(func() error { return called.sameAnswer(ctx, called.request) })
	}
	if err := group.Wait(); err != nil {
		return failed("%d requests at once, of which some are about another object: %w", concurrentCalls, err)
	}
	return outcome{}
}

// ofTheHook reads the response as callers do, and tells of members that they pass over.
func ofTheHook(_ context.Context, h *handler) outcome {
	response := h.definition.NewResponse()
	strict, err := kjson.UnmarshalStrict(h.answer, response)
	if err != nil {
		return failed("the response is no %s: %w", h.definition.ResponseKind.Kind, err)
	}
	if kind := response.GetObjectKind().GroupVersionKind(); !kind.Empty() && kind != h.definition.ResponseKind {
		return failed("the response says to be a %s, want %s", kind, h.definition.ResponseKind)
	}
	if len(strict) > 0 {
		return warned("callers pass over a part of the response: %v", errors.Join(strict...))
	}
	if response.GetStatus() == hooksv1.ResponseStatusFailure && response.GetMessage() == "" {
		return warned("a Failure without a message tells nobody what to do")
	}
	return outcome{}
}

// maxRetry is the longest that callers of this SDK wait.
const maxRetry = time.Hour

func sensibleRetry(_ context.Context, h *handler) outcome {
	response := h.definition.NewResponse()
	retry, ok := response.(hooksv1.RetryResponseObject)
	if !ok {
		return outcome{}
	}
	if err := json.Unmarshal(h.answer, response); err != nil {
		return outcome{err: err}
	}
	after := time.Duration(retry.GetRetryAfterSeconds()) * time.Second
	switch {
	case after < 0:
		return failed("retryAfterSeconds is %d, want 0 or more", retry.GetRetryAfterSeconds())
	case after > 0 && !h.definition.Blocking():
		return failed("retryAfterSeconds is %d, but %s holds nobody back", retry.GetRetryAfterSeconds(), h.Hook.Hook)
	case after > maxRetry:
		return warned("retryAfterSeconds is %d: callers wait for an hour at most", retry.GetRetryAfterSeconds())
	case after > 0 && response.GetMessage() == "":
		return warned("who waits for this handler learns nothing from it: give a message with retryAfterSeconds")
	}
	return outcome{}
}

// toleratesUnknownFields asks as a newer caller does, whose requests have fields more.
func toleratesUnknownFields(ctx context.Context, h *handler) outcome {
	var request map[string]json.RawMessage
	if err := json.Unmarshal(h.request, &request); err != nil {
		return outcome{err: err}
	}
	request["fieldOfALaterRelease"] = json.RawMessage(`{"of":["any","type"]}`)
	body, err := json.Marshal(request)
	if err == nil {
		err = h.sameAnswer(ctx, body)
	}
	if err != nil {
		return failed("the same request with a field that this version of the hook has not: %w", err)
	}
	return outcome{}
}

func supported(_ context.Context, h *handler) outcome {
	if lifecycle := h.definition.Meta.Lifecycle; h.definition.Meta.Deprecated() {
		return warned("%s is deprecated since %s; %s", h.Hook, lifecycle.Deprecated.Version, lifecycle.Advice())
	}
	return outcome{}
}

func failurePolicy(_ context.Context, h *handler) outcome {
	if h.FailurePolicy == runtimev1.FailurePolicyIgnore && h.definition.Blocking() {
		return warned("with failure policy Ignore nothing is held back while the extension is down")
	}
	return outcome{}
}

// badInput must be answered with an HTTP error or with status Failure.
func badInput(body string) func(context.Context, *handler) outcome {
	return func(ctx context.Context, h *handler) outcome {
		code, data, err := h.exchange(ctx, []byte(body))
		if err != nil || code != http.StatusOK {
			return outcome{err: err}
		}
		status, err := statusOf(data)
		if err == nil && status != "Failure" {
			err = fmt.Errorf("bad input was answered with status %q", status)
		}
		return outcome{err: err}
	}
}

// unknownHandler must not be taken for one there is: with a wrong name nothing would
// be held back.
func unknownHandler(ctx context.Context, h *handler) outcome {
	other := *h.Registration
	wrong := *h.URL
	wrong.Path = strings.TrimSuffix(wrong.Path, "/") + "-that-is-not-there"
	other.URL = &wrong
	code, data, err := (&handler{suite: h.suite, Registration: &other}).exchange(ctx, h.request)
	if err != nil || code != http.StatusOK {
		return outcome{err: err}
	}
	if status, err := statusOf(data); err == nil && status == "Success" {
		return failed("a handler that is not in the discovery answered with Success")
	}
	return outcome{}
}

func stillServes(ctx context.Context, h *handler) outcome {
	_, err := h.post(ctx, h.request)
	return outcome{err: err}
}
