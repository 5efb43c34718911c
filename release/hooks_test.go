package main

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestHookDocuments reads the OpenAPI document of the hooks under both of its names.
func TestHookDocuments(t *testing.T) {
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "1700000000", []string{runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.assets(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.writeHookDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := files(t, r.assets())
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"runtime-sdk-openapi.yaml", "slipway-runtime-hooks-openapi.yaml"}) {
		t.Fatalf("the assets are %q", names)
	}
	var document struct {
		OpenAPI string
		Info    struct{ Version string }
		Paths   map[string]struct {
			Post struct{ Description string }
		}
	}
	text := all["runtime-sdk-openapi.yaml"]
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.0.0" || document.Info.Version != "v0.1.0" || len(document.Paths) != 19 || text != all["slipway-runtime-hooks-openapi.yaml"] {
		t.Errorf("OpenAPI %s, version %s, %d hooks", document.OpenAPI, document.Info.Version, len(document.Paths))
	}
	for path, item := range document.Paths {
		if item.Post.Description == "" {
			t.Errorf("%s is not described", path)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, root) {
		t.Error("the document holds a path of the builder")
	}
	at := slices.IndexFunc(steps, func(s step) bool { return s.name == "hook documents" })
	if last := slices.IndexFunc(steps, func(s step) bool { return s.name == "checksums" }); at < 0 || at > last {
		t.Errorf("the documents are step %d of a release, the checksums step %d", at, last)
	}
}
