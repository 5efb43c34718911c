package live

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// Plane is what makes one plane another than all others on the machine. Its network
// namespace, cgroups and mounts carry the name.
type Plane struct {
	Name string
	// Port of its API server on 127.0.0.1.
	Port int
	// StateDir ends with the name. It is not there yet.
	StateDir string
}

// New gives a test a plane of its own.
func New(t testing.TB) Plane {
	t.Helper()
	port := shared.FreePort(t)
	name := fmt.Sprintf("planetest-%d", port)
	return Plane{Name: name, Port: port, StateDir: filepath.Join(t.TempDir(), name)}
}

// Flags are those of `slipway up` that make it this plane.
func (p Plane) Flags() []string {
	return []string{"--name", p.Name, "--api-port", strconv.Itoa(p.Port)}
}

// named finds the names of planes in what they leave traces in.
var named = regexp.MustCompile(`planetest-\w+`)

// variable is in the environment of all that a test runs.
const variable = "SLIPWAY_TEST"

// Environ is that of a command run for this plane.
func (p Plane) Environ() []string { return append(os.Environ(), variable+"="+p.Name) }

// MarkProcess is for tests that run the programs of Slipway and Kubernetes without a
// plane: no test that looks at the machine takes them for those of its own plane.
func MarkProcess() error { return os.Setenv(variable, "planetest-none") }
