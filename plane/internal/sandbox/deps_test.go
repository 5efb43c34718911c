package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// mayImport is what doc.go promises of PID 1 of every host, besides the standard library
// and packages of its own, and what the supervisor of the plane is made of.
func mayImport(pkg string) bool {
	const repository = "github.com/slipway-dev/slipway/"
	switch pkg {
	case repository + "internal/durable", repository + "plane/internal/supervisor", repository + "plane/internal/statedir",
		repository + "plane/internal/component":
		return true
	}
	return strings.HasPrefix(pkg, "golang.org/x/sys/") || pkg == "golang.org/x/net/bpf" || pkg == "github.com/elastic/go-seccomp-bpf/arch"
}

// TestInitStaysSmall holds what doc.go promises.
func TestInitStaysSmall(t *testing.T) {
	level.Deep(t)
	const program, maxSize = "github.com/slipway-dev/slipway/plane/cmd/slipway-sandbox", 8 << 20
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if !mayImport(pkg) && !strings.HasPrefix(pkg, "github.com/slipway-dev/slipway/plane/internal/sandbox") && pkg != program {
			t.Errorf("slipway-sandbox depends on %s", pkg)
		}
	}
	binary, err := shared.Program(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > maxSize {
		t.Errorf("slipway-sandbox has %d bytes, more than %d", st.Size(), maxSize)
	}
}
