package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/live"
)

// plane is the instance that suffers, driven through its command line.
type plane struct {
	live.Plane
	bin   string
	hosts int
	// client of its API server.
	client dynamic.Interface
	// removed is the Secret that a fault took away.
	removed *unstructured.Unstructured
	// heldUp is the name of what is being deleted and kept.
	heldUp string
	// elected is the host that had the address of the first cluster when its agent was stopped.
	elected string
	// left is on hosts that have not been reset since; gone and named count what was judged, and cannot is what
	// hosts have no program for.
	left        []left
	gone, named int
	cannot      []string
}

// hosts of the plane: a control plane, workers, one that is spare, and one for a second
// cluster.
const hosts = 6

// patience is how long a command may take: far more than it does, since other work on the
// machine must not fail the test.
const patience = 15 * time.Minute

func newPlane(t *testing.T) *plane {
	t.Helper()
	bin := os.Getenv("SLIPWAY_BIN")
	if bin == "" || os.Geteuid() != 0 {
		rights.Skip(t, "needs root and SLIPWAY_BIN; run it with `make chaos`")
	}
	p := &plane{Plane: live.New(t), bin: bin, hosts: hosts}
	live.Turn(t, hosts)
	t.Cleanup(func() {
		if out, err := p.run(context.Background(), "down", "--purge", "--yes"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return p
}

// run runs slipway and returns what it printed.
func (p *plane) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "slipway"), append([]string{"--state-dir", p.StateDir}, args...)...)
	cmd.Env = p.Environ()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("slipway %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// up brings up the plane and its hosts, or what of them is missing.
func (p *plane) up(ctx context.Context, args ...string) error {
	flags := append([]string{"up", "--fast", "--hosts", strconv.Itoa(p.hosts)}, p.Flags()...)
	_, err := p.run(ctx, append(flags, args...)...)
	return err
}

// connect opens a client for the plane, or for a workload cluster when one is named.
func (p *plane) connect(ctx context.Context, cluster string) (dynamic.Interface, error) {
	args := []string{"kubeconfig"}
	if cluster != "" {
		args = append(args, cluster)
	}
	path, err := p.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimSpace(path))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return dynamic.NewForConfig(config)
}

// pid of the plane's process; 0 while there is none. It asks nobody: a status waits for
// workload clusters.
func (p *plane) pid() int {
	return findProcess(func(exe string, command []string) bool {
		return exe == "slipway" && slices.Contains(command, "serve") && slices.Contains(command, p.StateDir)
	})
}

// lifecyclePID is the process of the lifecycle engine, a child of the plane's; 0 while
// that waits to start it again.
func (p *plane) lifecyclePID() int {
	return findProcess(func(exe string, command []string) bool {
		return exe == "slipway-lifecycle" && slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, p.StateDir+"/") })
	})
}

// findProcess is the first one that fits, by the name of its program and its command line.
func findProcess(fits func(exe string, command []string) bool) int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if fits(filepath.Base(exe), strings.Split(string(command), "\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			return pid
		}
	}
	return 0
}
