package providercheck_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

const catalogue = "../../docs/reference/check-provider.md"

var write = flag.Bool("write", false, "write "+catalogue+" instead of comparing it")

// TestCatalogue holds the page to the rules.
func TestCatalogue(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(`# Rules of slipway check provider

What [slipway check provider](../cli.md#check) asks of the release of a Cluster API provider, written by ` + "`make docs`" + ` from the rules
themselves. An error is what clusterctl, the API server or Cluster API refuses, a warning what a contract recommends or a value that users do not
expect, a note what a contract leaves open.

| Rule | Level | What it asks | Where it stands | When it is broken |
|---|---|---|---|---|
`)
	for _, r := range providercheck.Rules {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", r.ID, r.Level, r.Title, r.Contract, r.Remedy)
	}
	if *write {
		if err := os.WriteFile(catalogue, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, page.Bytes()) {
		t.Errorf("%s is stale: run `make docs`", catalogue)
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		severity string
		rules    []string
		ok       bool
	}{
		{"error", nil, true},
		{"note", []string{"crd-scope"}, true},
		{"fatal", nil, false},
		{"note", []string{"crd-scopes"}, false},
	} {
		if _, err := providercheck.NewFilter(c.severity, c.rules); (err == nil) != c.ok {
			t.Errorf("%s %v: %v", c.severity, c.rules, err)
		}
	}
	release, err := providercheck.Load(plant(t, violation{file: template, old: `namespace: "${NAMESPACE}"`, changed: "namespace: default"}))
	if err != nil {
		t.Fatal(err)
	}
	for severity, want := range map[string]int{"note": 1, "warning": 0} {
		filter, err := providercheck.NewFilter(severity, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(providercheck.NewResult(release, filter).Findings); got != want {
			t.Errorf("%s: %d findings, want %d", severity, got, want)
		}
	}
}
