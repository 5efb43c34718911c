package providercheck_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// TestBuiltinKinds holds the list of kinds to the discovery data of the Kubernetes version that the
// plane is made of. `go test ./internal/providercheck -run TestBuiltinKinds -args -write` writes it.
func TestBuiltinKinds(t *testing.T) {
	requirements, err := os.ReadFile("../../plane/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`k8s\.io/kubernetes (v\S+)`).FindSubmatch(requirements)
	if version == nil {
		t.Fatal("plane/go.mod names no version of Kubernetes")
	}
	module, err := judge.Download(t.Context(), "k8s.io/kubernetes@"+string(version[1]))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(module, "api/discovery/api*__*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no discovery data", err)
	}
	var lines []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var resources metav1.APIResourceList
		if err := json.Unmarshal(data, &resources); err != nil {
			t.Fatal(err)
		}
		gv, err := schema.ParseGroupVersion(resources.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			scope := "Cluster"
			if r.Namespaced {
				scope = "Namespaced"
			}
			lines = append(lines, fmt.Sprintf("%s/%s %s %s\n", gv.Group, gv.Version, r.Kind, scope))
		}
	}
	slices.Sort(lines)
	want := strings.Join(slices.Compact(lines), "")
	if *write {
		if err := os.WriteFile("builtin-kinds.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("builtin-kinds.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("builtin-kinds.txt is stale: run `make docs`")
	}
}
