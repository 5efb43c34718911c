package console

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The program of a plane has the console, too: it costs no memory until somebody opens it.
// Pages are parsed by Listen; that the packages keep little before, the runtime tells.
func TestItCostsNothingUntilItIsOpened(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "-test.run=^$", "-test.short")
	command.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	traced := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes,`).FindAllStringSubmatch(string(out), -1)
	if len(traced) < 50 {
		t.Fatalf("only %d packages are told of", len(traced))
	}
	const ours, little = "github.com/slipway-dev/slipway/internal/console", 64 << 10
	sum := 0
	for _, line := range traced {
		if bytes, err := strconv.Atoi(line[2]); err == nil && strings.HasPrefix(line[1], ours) {
			sum += bytes
		}
	}
	if sum > little {
		t.Errorf("%d bytes are taken at the start of any program that has the console", sum)
	}
	t.Logf("%d bytes of %d packages", sum, len(traced))
}
