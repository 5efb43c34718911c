package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
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
	// Requests holds more requests, in files <Hook>.json and <Hook>-*.json: what the extension
	// acts on and the requests of this package are not. Default: none.
	Requests fs.FS
}

// Result is the outcome of one check.
type Result struct {
	// Name is the check and, after a slash, the handler it is about.
	Name string
	// Err says what is wrong, nil if the check passed.
	Err error
	// Warning says what the guidelines for authors advise against although no rule
	// forbids it. The extension passes; empty if there is nothing to say.
	Warning string
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

// Warnings counts the checks that passed with a warning.
func (r *Report) Warnings() int {
	n := 0
	for _, result := range r.Results {
		if result.Err == nil && result.Warning != "" {
			n++
		}
	}
	return n
}

func (r *Report) add(name string, err error) { r.addOutcome(name, outcome{err: err}) }

func (r *Report) addOutcome(name string, o outcome) {
	r.Results = append(r.Results, Result{Name: name, Err: o.err, Warning: o.warning})
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
	defer c.CloseIdleConnections()
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
	report.connection(ctx, o)
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

// String lists the results, one per line.
func (r *Report) String() string {
	var b strings.Builder
	for _, result := range r.Results {
		if result.Err != nil {
			fmt.Fprintf(&b, "FAIL %s: %v\n", result.Name, result.Err)
			continue
		}
		if result.Warning != "" {
			fmt.Fprintf(&b, "warn %s: %s\n", result.Name, result.Warning)
			continue
		}
		fmt.Fprintf(&b, "ok   %s\n", result.Name)
	}
	return b.String()
}
