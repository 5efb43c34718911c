package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/live"
)

// plane is one instance under test, driven through its command line.
type plane struct {
	live.Plane
	t   *testing.T
	bin string
	// own is the plane's kubeconfig, once it is known.
	own string
	// endpoint is the control-plane address of its clusters.
	endpoint string
}

// status mirrors what `slipway status -o json` promises; it is written down
// again here so that a change of the promise fails a test.
type status struct {
	Plane struct {
		Ready bool `json:"ready"`
		PID   int  `json:"pid"`
		// Crashes are those since up started it.
		Crashes struct {
			Count  int    `json:"count"`
			Reason string `json:"reason"`
		} `json:"crashes"`
		// HostServer is where hosts on other machines reach the plane.
		HostServer string `json:"hostServer"`
	} `json:"plane"`
	Clusters []struct {
		Namespace    string   `json:"namespace"`
		Name         string   `json:"name"`
		Phase        string   `json:"phase"`
		ControlPlane replicas `json:"controlPlane"`
		Pools        []struct {
			Name string `json:"name"`
			replicas
		} `json:"pools"`
		Nodes []struct {
			Name       string `json:"name"`
			Ready      bool   `json:"ready"`
			ProviderID string `json:"providerID"`
			Version    string `json:"version"`
		} `json:"nodes"`
		Waiting []string `json:"waiting"`
	} `json:"clusters"`
	Hosts []struct {
		Name      string   `json:"name"`
		Phase     string   `json:"phase"`
		ClaimedBy string   `json:"claimedBy"`
		Addresses []string `json:"addresses"`
		Message   string   `json:"message"`
	} `json:"hosts"`
}

type replicas struct {
	Desired int `json:"desired"`
	Ready   int `json:"ready"`
}

// testsAtOnce is how many tests may wait for a turn at once: all of them.
const testsAtOnce = "32"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newPlane is one for a test that has up to so many local hosts at once: 0 for a test that
// starts nothing, and at least 1 for any other.
func newPlane(t *testing.T, hosts int) *plane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real kubelets or the built programs, skipped by -short")
	}
	bin := os.Getenv("SLIPWAY_BIN")
	if bin == "" || os.Geteuid() != 0 {
		rights.Skip(t, "needs root and SLIPWAY_BIN; run it with `make test`")
	}
	t.Parallel()
	p := &plane{Plane: live.New(t), t: t, bin: bin, endpoint: virtualIP}
	if hosts > 0 {
		live.Turn(t, hosts)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.dump()
		}
		if out, err := p.run("down", "--purge", "--yes"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return p
}

// context ends shortly before the run does. Commands that clean up after the test have no limit.
func (p *plane) context() context.Context {
	if p.t.Context().Err() != nil {
		return context.Background()
	}
	return poll.Context(p.t)
}

// run runs slipway and returns what it printed.
func (p *plane) run(args ...string) (string, error) {
	cmd := exec.CommandContext(p.context(), filepath.Join(p.bin, "slipway"), append([]string{"--state-dir", p.StateDir}, args...)...)
	cmd.Env = p.Environ()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stdout.String(), fmt.Errorf("slipway %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// must is run for what has to succeed.
func (p *plane) must(args ...string) string {
	p.t.Helper()
	out, err := p.run(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *plane) up(args ...string) {
	p.t.Helper()
	begin := time.Now()
	p.must(append(append([]string{"up"}, p.Flags()...), args...)...)
	p.t.Logf("slipway up: %.1fs", time.Since(begin).Seconds())
}

func (p *plane) status() status {
	p.t.Helper()
	var s status
	if err := json.Unmarshal([]byte(p.must("status", "-o", "json")), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// eventually follows the status until nothing is missing. One program shows it all the
// while: to start one for each look took more of the processors than what was waited for.
func (p *plane) eventually(what string, missing func(status) string) status {
	p.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithCancel(poll.Context(p.t))
	shown := p.follow(ctx)
	defer func() {
		cancel()
		for range shown { // until its program has ended
		}
	}()
	// The status is shown when it changes; what else is looked at changes without it.
	again := time.NewTicker(time.Second)
	defer again.Stop()
	why, last, known, more := "no status", status{}, false, true
	for more {
		select {
		case is, open := <-shown:
			if more = open; open {
				last, known = is, true
			}
		case <-again.C:
		}
		if !known {
			continue
		}
		if why = missing(last); why == "" {
			p.t.Logf("%s: %.1fs", what, time.Since(begin).Seconds())
			return last
		}
	}
	p.t.Fatalf("%s: not before the run ends: %s\n%+v", what, why, last)
	return last
}

// kubectl against the plane, or against a workload cluster when one is named.
func (p *plane) kubectl(cluster string, args ...string) (string, error) {
	path, err := p.kubeconfig(cluster)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(p.context(), filepath.Join(p.bin, "kubectl"), args...)
	cmd.Env = append(p.Environ(), "KUBECONFIG="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// kubeconfig is the file for the plane, which stays what it is, or for a workload cluster.
func (p *plane) kubeconfig(cluster string) (string, error) {
	args := []string{"kubeconfig"}
	if cluster != "" {
		args = append(args, cluster)
	} else if p.own != "" {
		return p.own, nil
	}
	out, err := p.run(args...)
	path := strings.TrimSpace(out)
	if cluster == "" {
		p.own = path
	}
	return path, err
}

func (p *plane) mustKubectl(cluster string, args ...string) string {
	p.t.Helper()
	out, err := p.kubectl(cluster, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// apply applies a manifest to a workload cluster, or to the plane where none is named.
func (p *plane) apply(cluster, manifest string) {
	p.t.Helper()
	// not in a folder of a subtest, whose name may have a comma: kubectl would take two paths
	file := filepath.Join(filepath.Dir(p.StateDir), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.mustKubectl(cluster, "apply", "-f", file)
}

// dump shows what an operator would look at.
func (p *plane) dump() {
	for _, args := range [][]string{{"status", "-o", "wide"}, {"host", "list", "-o", "wide"}} {
		out, err := p.run(args...)
		p.t.Logf("slipway %s (%v)\n%s", strings.Join(args, " "), err, out)
	}
	for _, cluster := range []string{"", "local"} {
		for _, args := range [][]string{{"get", "cluster,machine,machinepool,hostmachinepool,hostmachine,host", "-A", "-o", "wide"}, {"get", "node,pod", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
			out, err := p.kubectl(cluster, args...)
			p.t.Logf("kubectl %s, cluster %q (%v)\n%s", strings.Join(args, " "), cluster, err, tail(out, 60))
		}
	}
	for _, pattern := range []string{"plane.log", "hosts/*/var/log/*.log"} {
		files, _ := filepath.Glob(filepath.Join(p.StateDir, pattern))
		for _, file := range files {
			data, _ := os.ReadFile(file)
			p.t.Logf("%s\n%s", file, tail(string(data), 40))
		}
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
