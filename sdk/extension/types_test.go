package extension_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWrongTypeDoesNotCompile builds a program that registers a handler of another
// hook. Upstream's server finds that out when it starts.
func TestWrongTypeDoesNotCompile(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/wrong").CombinedOutput()
	if err == nil {
		t.Fatal("it compiled")
	}
	if !strings.Contains(string(out), "BeforeClusterDeleteRequest") {
		t.Errorf("the compiler says: %s", out)
	}
}
