package live

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// FormerVersion is that of an agent which the plane still works with.
const FormerVersion = "v0.0.9"

// FormerAgent builds the agent of this tree under the version before, at a path.
func FormerAgent(t testing.TB, path string) {
	t.Helper()
	const module = "github.com/slipway-dev/slipway"
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X "+module+"/internal/version.Version="+FormerVersion, "-o", path, module+"/cmd/slipway-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build an agent: %v\n%s", err, out)
	}
}

// Version asks a program what it is.
func Version(t testing.TB, program string) string {
	t.Helper()
	out, err := exec.Command(program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
