//go:build e2e

package upstream

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Address of the plane's API server in the network of its hosts.
const planeServer = "https://10.88.0.1:6443"

// plane is the one that the specs run against, driven through its command line.
type plane struct {
	bin, stateDir, name string
	port                int
}

// newPlane chooses a name and a port that no other test's plane has.
func newPlane(t *testing.T) *plane {
	t.Helper()
	if *bin == "" || os.Geteuid() != 0 {
		t.Fatal("needs root and -e2e.bin; run it with `make test-upstream`")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	name := fmt.Sprintf("planetest-%d", port)
	return &plane{bin: *bin, name: name, port: port, stateDir: filepath.Join(*artifacts, "state", name)}
}

// command is slipway for this plane. Processes carry the plane's name, by which tests that
// look at the machine tell them from their own.
func (p *plane) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "slipway"), append([]string{"--state-dir", p.stateDir}, args...)...)
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST="+p.name)
	return cmd
}

// run brings the plane up, runs the specs in its network and takes it down again.
func (p *plane) run(t *testing.T) {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := os.MkdirAll(*artifacts, 0o750); err != nil {
		t.Fatal(err)
	}
	defer p.down(t)
	up := p.command(stop, "up", "--no-cluster", "--fast", "--hosts", strconv.Itoa(*hosts), "--name", p.name, "--api-port", strconv.Itoa(p.port))
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("slipway up: %v\n%s", err, out)
	}
	// `ip netns exec` would mount /sys anew, which `slipway host shell` does not survive.
	args := append([]string{"--net=/run/netns/" + p.name, "--", executable(t)}, os.Args[1:]...)
	specs := exec.CommandContext(stop, "nsenter", args...)
	specs.Env = append(os.Environ(), "SLIPWAY_TEST="+p.name, stateVariable+"="+p.stateDir, outerVariable+"="+strconv.Itoa(os.Getpid()))
	specs.Stdout, specs.Stderr = os.Stdout, os.Stderr
	specs.Cancel = func() error { return specs.Process.Signal(os.Interrupt) }
	if err := specs.Run(); err != nil {
		t.Errorf("specs: %v; see %s", err, *artifacts)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// down keeps the plane's log beside those of the specs.
func (p *plane) down(t *testing.T) {
	if log, err := os.ReadFile(filepath.Join(p.stateDir, "plane.log")); err == nil {
		if err := os.WriteFile(filepath.Join(*artifacts, "plane.log"), log, 0o600); err != nil {
			t.Error(err)
		}
	}
	if *skipCleanup {
		t.Logf("left running: slipway --state-dir %s status", p.stateDir)
		return
	}
	if out, err := p.command(context.Background(), "down", "--purge", "--yes").CombinedOutput(); err != nil {
		t.Errorf("slipway down: %v\n%s", err, out)
	}
}

const (
	stateVariable = "SLIPWAY_UPSTREAM_STATE"
	outerVariable = "SLIPWAY_UPSTREAM_OUTER"
)

// inside is what the specs know of the plane that they run in the network of.
type inside struct {
	plane
	// outer is a process outside of that network.
	outer string
	// kubeconfig leads to the plane from within.
	kubeconfig string
}

// insidePlane is nil outside of a plane's network.
func insidePlane(t *testing.T) *inside {
	t.Helper()
	state := os.Getenv(stateVariable)
	if state == "" {
		return nil
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(state, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = planeServer
	}
	p := &inside{
		plane: plane{bin: *bin, stateDir: state, name: os.Getenv("SLIPWAY_TEST")},
		outer: os.Getenv(outerVariable), kubeconfig: filepath.Join(*artifacts, "plane.kubeconfig"),
	}
	if err := clientcmd.WriteToFile(*config, p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// slipway runs a command outside of the plane's network, as an operator does.
func (p *inside) slipway(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := p.command(ctx, args...)
	cmd.Args = append([]string{"nsenter", "--net=/proc/" + p.outer + "/ns/net", "--", cmd.Path}, cmd.Args[1:]...)
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return "", err
	}
	cmd.Path = nsenter
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("slipway %v: %w\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
