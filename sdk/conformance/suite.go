package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"time"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

type suite struct {
	options Options
	client  *client.Client
	report  *Report
}

// outcome of a check: an error when a rule is broken, a warning when a guideline is.
type outcome struct {
	err     error
	warning string
}

func failed(format string, args ...any) outcome { return outcome{err: fmt.Errorf(format, args...)} }
func warned(format string, args ...any) outcome {
	return outcome{warning: fmt.Sprintf(format, args...)}
}

// handler is one handler under check with one request.
type handler struct {
	*suite
	*registry.Registration
	definition *hook.Definition
	// request is one of the hook, answer the first response to it, which came after took.
	request, answer []byte
	took            time.Duration
}

// handler calls one handler with each request, and with bad input.
func (s *suite) handler(ctx context.Context, r *registry.Registration) {
	called, err := s.call(ctx, r)
	s.report.add("call/"+r.Handler, err)
	if err != nil {
		return
	}
	for _, check := range checks {
		if check.hook != "" && check.hook != r.Hook.Hook {
			continue
		}
		var result outcome
		for name, h := range called.all() {
			o := check.run(ctx, h)
			if len(called.names) > 1 {
				o = o.of(name)
			}
			if result = worse(result, o); check.once || result.err != nil {
				break
			}
		}
		s.report.addOutcome(check.name+"/"+r.Handler, result)
	}
	s.report.addOutcome("exercise/"+r.Handler, exercised(called))
}

// calls are what a handler has answered, by the name of the request.
type calls struct {
	names    []string
	handlers []*handler
}

func (c calls) all() iter.Seq2[string, *handler] {
	return func(yield func(string, *handler) bool) {
		for i, h := range c.handlers {
			if !yield(c.names[i], h) {
				return
			}
		}
	}
}

// worse is the outcome that says more against an extension.
func worse(a, b outcome) outcome {
	if b.err != nil || a.err == nil && a.warning == "" {
		return b
	}
	return a
}

// of says to which request an outcome belongs.
func (o outcome) of(request string) outcome {
	if o.err != nil {
		o.err = fmt.Errorf("%w (request %s)", o.err, request)
	}
	if o.warning != "" {
		o.warning += " (request " + request + ")"
	}
	return o
}

// call makes the first call with each request.
func (s *suite) call(ctx context.Context, r *registry.Registration) (called calls, err error) {
	definition := s.options.Catalog.Get(r.Hook)
	if definition == nil {
		return called, fmt.Errorf("hook %s is not in the catalog", r.Hook)
	}
	requests, err := examples(definition, s.options.Requests)
	if err != nil {
		return called, err
	}
	if len(requests) == 0 {
		return called, fmt.Errorf("hook %s has no example", r.Hook)
	}
	for _, request := range requests {
		h := &handler{suite: s, Registration: r, definition: definition, request: request.body}
		start := time.Now()
		if h.answer, err = h.post(ctx, h.request); err != nil {
			return called, fmt.Errorf("%w (request %s)", err, request.name)
		}
		h.took = time.Since(start)
		called.names, called.handlers = append(called.names, request.name), append(called.handlers, h)
	}
	return called, nil
}

// post returns the response to body, which must be one of the hook.
func (h *handler) post(ctx context.Context, body []byte) ([]byte, error) {
	code, data, err := h.exchange(ctx, body)
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d: %s", code, bytes.TrimSpace(data))
	}
	status, err := statusOf(data)
	if err != nil {
		return nil, fmt.Errorf("the response is not JSON: %w", err)
	}
	if status != "Success" && status != "Failure" {
		return nil, fmt.Errorf("the response has the status %q, want Success or Failure", status)
	}
	return data, nil
}

// sameAnswer posts body, whose response must be the first one.
func (h *handler) sameAnswer(ctx context.Context, body []byte) error {
	data, err := h.post(ctx, body)
	if err == nil && !sameJSON(h.answer, data) {
		err = errors.New("the response is another one")
	}
	return err
}

func (h *handler) exchange(ctx context.Context, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout+5*time.Second)
	defer cancel()
	return h.client.Exchange(ctx, h.Registration, body)
}

func statusOf(answer []byte) (string, error) {
	var response struct {
		Status string `json:"status"`
	}
	err := json.Unmarshal(answer, &response)
	return response.Status, err
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
