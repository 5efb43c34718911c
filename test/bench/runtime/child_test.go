package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// The memory of a server or caller is measured in a process of its own: this test
// binary, started again with a role.
const (
	roleVariable    = "SLIPWAY_BENCH_ROLE"
	addressVariable = "SLIPWAY_BENCH_ADDRESS"
	certVariable    = "SLIPWAY_BENCH_CERTIFICATE"
)

// roles are what a child can be. Each ends with ctx.
var roles = map[string]func(ctx context.Context, address, certFile string) error{
	"server-ours": func(ctx context.Context, address, certFile string) error {
		return serveOurs(ctx, certFile, strings.TrimSuffix(certFile, ".crt")+".key", address)
	},
	"server-upstream": func(ctx context.Context, address, certFile string) error {
		return serveUpstream(ctx, certFile, address)
	},
	"caller-ours":     callOurs,
	"caller-upstream": callUpstream,
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := role(ctx, os.Getenv(addressVariable), os.Getenv(certVariable))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is a process with a role.
type child struct {
	t       *testing.T
	command *exec.Cmd
	input   *bufio.Writer
	output  *bufio.Scanner
}

// startChild starts a role. address and certFile are the server's, which a child
// either is or calls.
func startChild(t *testing.T, role, address, certFile string) *child {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	command.Env = append(os.Environ(), roleVariable+"="+role, addressVariable+"="+address, certVariable+"="+certFile)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = in.Close()
		var exit *exec.ExitError
		if err := command.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	})
	return &child{t: t, command: command, input: bufio.NewWriter(in), output: bufio.NewScanner(out)}
}

// startServer starts a server's role and waits until it listens.
func startServer(t *testing.T, role string) (*child, *attacker) {
	t.Helper()
	ca := hooktest.NewCA(t)
	certFile, _ := ca.Files(t.TempDir(), "server")
	address := freeAddress(t)
	c := startChild(t, role, address, certFile)
	waitFor(t, address)
	return c, newAttacker(t, address, ca)
}

// ask sends a line to a child and returns its answer.
func (c *child) ask(line string) string {
	c.t.Helper()
	_, _ = c.input.WriteString(line + "\n")
	if err := c.input.Flush(); err != nil {
		c.t.Fatal(err)
	}
	if !c.output.Scan() {
		c.t.Fatal("the child is gone: ", c.output.Err())
	}
	return c.output.Text()
}

// memory returns a figure of the child's memory in MiB: VmRSS, or VmHWM, the peak.
func (c *child) memory(figure string) float64 {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.command.Process.Pid), "status"))
	if err != nil {
		c.t.Skip("the memory of a process cannot be read here: ", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == figure+":" {
			kilobytes, err := strconv.Atoi(fields[1])
			if err != nil {
				c.t.Fatal(err)
			}
			return float64(kilobytes) / 1024
		}
	}
	c.t.Fatalf("%s has no line %s", "status", figure)
	return 0
}

// grown runs attack and returns by how much the peak of the child's memory
// exceeded what it used before, in MiB, and how long the attack took.
func (c *child) grown(attack func()) (float64, time.Duration) {
	c.t.Helper()
	idle := c.memory("VmRSS")
	// Writing 5 sets the peak back to what is used now.
	if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(c.command.Process.Pid), "clear_refs"), []byte("5"), 0); err != nil && !errors.Is(err, syscall.EACCES) {
		c.t.Fatal(err)
	}
	start := time.Now()
	attack()
	return c.memory("VmHWM") - idle, time.Since(start)
}
