package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/openapi"
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

// handler is one handler under check.
type handler struct {
	*suite
	*registry.Registration
	definition *hook.Definition
	// request is the example of the hook, answer the first response to it, which came
	// after took.
	request, answer []byte
	took            time.Duration
}

// handler calls one handler with its example and with bad input.
func (s *suite) handler(ctx context.Context, r *registry.Registration) {
	h := &handler{suite: s, Registration: r, definition: s.options.Catalog.Get(r.Hook)}
	err := h.call(ctx)
	s.report.add("call/"+r.Handler, err)
	if err != nil {
		return
	}
	for _, check := range checks {
		if check.hook == "" || check.hook == r.Hook.Hook {
			s.report.addOutcome(check.name+"/"+r.Handler, check.run(ctx, h))
		}
	}
}

// call makes the first call with the example request of the OpenAPI document.
func (h *handler) call(ctx context.Context) error {
	if h.definition == nil {
		return fmt.Errorf("hook %s is not in the catalog", h.Hook)
	}
	for _, item := range openapi.New(openapi.Info{}, []*hook.Definition{h.definition}).Paths {
		h.request = item.Post.RequestBody.Content["application/json"].Example
	}
	if h.request == nil {
		return fmt.Errorf("hook %s has no example", h.Hook)
	}
	var err error
	start := time.Now()
	h.answer, err = h.post(ctx, h.request)
	h.took = time.Since(start)
	return err
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
