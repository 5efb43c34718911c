package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/openapi"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Options says which extension is checked.
type Options struct {
	// URL is the https URL of the extension. Required.
	URL string
	// CABundle holds the CAs of the extension in PEM form. Default: the system's.
	CABundle []byte
	// CertFile and KeyFile hold a client certificate. Default: none.
	CertFile, KeyFile string
	// Catalog holds the hooks that the extension may implement. Required.
	Catalog *hook.Catalog
}

// Result is the outcome of one check.
type Result struct {
	// Name is the check and, after a slash, the handler it is about.
	Name string
	// Err says what is wrong, nil if the check passed.
	Err error
}

// Report holds all results in the order of the checks.
type Report struct {
	Results []Result
}

// Failed tells whether any check failed.
func (r *Report) Failed() bool {
	for _, result := range r.Results {
		if result.Err != nil {
			return true
		}
	}
	return false
}

func (r *Report) add(name string, err error) {
	r.Results = append(r.Results, Result{Name: name, Err: err})
}

// Check runs all checks. The error says that they could not be run at all; what
// the extension does wrong is in the report.
func Check(ctx context.Context, o Options) (*Report, error) {
	reg := registry.New(registry.Options{})
	c, err := client.New(client.Options{
		Catalog: o.Catalog, Registry: reg, CertFile: o.CertFile, KeyFile: o.KeyFile,
		// Checks provoke errors; the next one must not be held back by them.
		Backoff: client.Backoff{Initial: 1, Max: 1},
	})
	if err != nil {
		return nil, err
	}
	entry := registry.Entry{
		Kind: "extension", Name: "conformance", ClientConfig: runtimev1.ClientConfig{URL: o.URL, CABundle: o.CABundle},
	}
	report := &Report{}
	first, err := c.Discover(ctx, entry)
	report.add("discovery", err)
	if report.Failed() {
		return report, nil
	}
	second, err := c.Discover(ctx, entry)
	if err == nil && !reflect.DeepEqual(first, second) {
		err = errors.New("two discoveries gave different handlers")
	}
	report.add("discovery is stable", err)
	entry.Handlers = first
	if err := reg.WarmUp(entry); err != nil {
		return nil, err
	}
	s := &suite{options: o, client: c, report: report}
	for _, use := range reg.Uses() {
		registration, err := reg.Get(use.Handler)
		if err != nil {
			return nil, err
		}
		s.handler(ctx, registration)
	}
	return report, nil
}

type suite struct {
	options Options
	client  *client.Client
	report  *Report
}

// handler calls one handler with its example twice and with bad input.
func (s *suite) handler(ctx context.Context, r *registry.Registration) {
	example, err := s.example(r)
	if err != nil {
		s.report.add("call/"+r.Handler, err)
		return
	}
	start := time.Now()
	first, err := s.post(ctx, r, example)
	s.report.add("call/"+r.Handler, err)
	if err != nil {
		return
	}
	err = nil
	if took := time.Since(start); took > r.Timeout {
		err = fmt.Errorf("the answer took %s, more than the timeout of %s", took, r.Timeout)
	}
	s.report.add("timeout/"+r.Handler, err)
	second, err := s.post(ctx, r, example)
	s.report.add("idempotence/"+r.Handler, err)
	if err == nil && !sameJSON(first, second) {
		err = errors.New("the same request got different responses")
	}
	s.report.add("determinism/"+r.Handler, err)
	for _, bad := range [][2]string{
		{"not JSON", "<html>"}, {"wrong type", `{"settings":5}`}, {"empty body", ""}, {"open document", `{"settings":{`},
	} {
		s.badInput(ctx, r, bad[0], bad[1])
	}
	_, err = s.post(ctx, r, example)
	s.report.add("still serves/"+r.Handler, err)
}

// badInput must be answered with an HTTP error or with status Failure.
func (s *suite) badInput(ctx context.Context, r *registry.Registration, name, body string) {
	var answer struct {
		Status string `json:"status"`
	}
	code, data, err := s.exchange(ctx, r, []byte(body))
	if err == nil && code == 200 {
		if err = json.Unmarshal(data, &answer); err == nil && answer.Status != "Failure" {
			err = fmt.Errorf("bad input was answered with status %q", answer.Status)
		}
	}
	s.report.add("bad input: "+name+"/"+r.Handler, err)
}

// example returns the example request of the OpenAPI document.
func (s *suite) example(r *registry.Registration) ([]byte, error) {
	definition := s.options.Catalog.Get(r.Hook)
	if definition == nil {
		return nil, fmt.Errorf("hook %s is not in the catalog", r.Hook)
	}
	for _, item := range openapi.New(openapi.Info{}, []*hook.Definition{definition}).Paths {
		return item.Post.RequestBody.Content["application/json"].Example, nil
	}
	return nil, fmt.Errorf("hook %s has no example", r.Hook)
}

// post returns the response to body, which must be one of the hook.
func (s *suite) post(ctx context.Context, r *registry.Registration, body []byte) ([]byte, error) {
	code, data, err := s.exchange(ctx, r, body)
	if err != nil {
		return nil, err
	}
	if code != 200 {
		return nil, fmt.Errorf("HTTP status %d: %s", code, bytes.TrimSpace(data))
	}
	var answer struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the response is not JSON: %w", err)
	}
	if answer.Status != "Success" && answer.Status != "Failure" {
		return nil, fmt.Errorf("the response has the status %q, want Success or Failure", answer.Status)
	}
	return data, nil
}

func (s *suite) exchange(ctx context.Context, r *registry.Registration, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout+5*time.Second)
	defer cancel()
	return s.client.Exchange(ctx, r, body)
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// String lists the results, one per line.
func (r *Report) String() string {
	var b strings.Builder
	for _, result := range r.Results {
		if result.Err != nil {
			fmt.Fprintf(&b, "FAIL %s: %v\n", result.Name, result.Err)
			continue
		}
		fmt.Fprintf(&b, "ok   %s\n", result.Name)
	}
	return b.String()
}
