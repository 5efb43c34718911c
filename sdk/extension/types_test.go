package extension_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/internal/level"
)

// TestWrongTypeDoesNotCompile builds a program that registers a handler of another
// hook. Upstream's server finds that out when it starts.
func TestWrongTypeDoesNotCompile(t *testing.T) {
	level.Deep(t)
	out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/wrong").CombinedOutput()
	if err == nil {
		t.Fatal("it compiled")
	}
	if !strings.Contains(string(out), "BeforeClusterDeleteRequest") {
		t.Errorf("the compiler says: %s", out)
	}
}
