package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/level"
)

// maxBinary is how large an extension may become, in bytes.
const maxBinary = 25_000_000

// TestBinaryIsSmall builds the example as its user would.
func TestBinaryIsSmall(t *testing.T) {
	level.Deep(t)
	path := filepath.Join(t.TempDir(), "quota")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(info.Size())/1e6)
	if info.Size() > maxBinary {
		t.Errorf("the example has %d bytes, more than %d", info.Size(), maxBinary)
	}
}

// TestDependencies proves that an extension links neither client-go nor Kubernetes,
// nor what only some users of the SDK need.
func TestDependencies(t *testing.T) {
	level.Deep(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "github.com/slipway-dev/slipway/sdk/extension").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		for _, never := range []string{"k8s.io/client-go", "k8s.io/kubernetes", "sigs.k8s.io/controller-runtime", "github.com/google/cel-go", "go.opentelemetry.io/otel/sdk"} {
			if strings.HasPrefix(line, never) {
				t.Errorf("an extension depends on %s", strings.TrimSpace(line))
			}
		}
	}
}

func TestHold(t *testing.T) {
	server, err := extension.New(extension.Options{})
	if err == nil {
		err = extension.Handle(server, capi.BeforeClusterCreate, "quota", beforeCreate)
	}
	if err != nil {
		t.Fatal(err)
	}
	request := &hooksv1.BeforeClusterCreateRequest{}
	if got := hooktest.Call(t, server, capi.BeforeClusterCreate, "quota", request); got.RetryAfterSeconds != 0 {
		t.Errorf("a Cluster without the annotation is held back: %+v", got)
	}
	request.Cluster.Annotations = map[string]string{"example.com/hold": "yes"}
	if got := hooktest.Call(t, server, capi.BeforeClusterCreate, "quota", request); got.RetryAfterSeconds != 30 {
		t.Errorf("a Cluster with the annotation is not held back: %+v", got)
	}
}
