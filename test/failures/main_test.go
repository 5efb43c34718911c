package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const failing = `package x

import "testing"

func TestPasses(t *testing.T) { t.Log("all is well") }

func TestFails(t *testing.T) {
	t.Cleanup(func() { t.Log("the log of the host\nis long") })
	t.Run("part", func(t *testing.T) { t.Errorf("the node is not ready:\n%s", "very long") })
	t.Run("silent", func(t *testing.T) { t.FailNow() })
}

func TestPanics(t *testing.T) { panic("no host") }
`

// The events are those of the real program. What passed and what only surrounds a failure
// is not told.
func TestTell(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"x_test.go": failing, "go.mod": "module x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-json", ".")
	command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=off")
	events, err := command.Output()
	if err == nil {
		t.Fatalf("the tests passed:\n%s", events)
	}
	var out strings.Builder
	if err := tell(&out, strings.NewReader("a line of somebody else\n"+string(events))); err != nil {
		t.Fatal(err)
	}
	const want = `x TestFails/part
    x_test.go:9: the node is not ready:
x TestFails
    x_test.go:8: the log of the host
x TestPanics
panic: no host [recovered, repanicked]
`
	if out.String() != want {
		t.Errorf("told\n%s\nwant\n%s", out.String(), want)
	}
}

func TestFileThatIsMissing(t *testing.T) {
	if err := tellFile(&strings.Builder{}, filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("there is no such file, and no error")
	}
}
