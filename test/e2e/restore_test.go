package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/live"
)

// TestRestore loses a plane after a backup, and a worker was released in between. The restored plane continues: the
// clusters never notice, no host is reset that has a machine, and what the backup wanted comes about again.
func TestRestore(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 3)
	p.up("--fast", "--hosts", "3")
	p.eventually("two workers", workers(2))
	key, to := filepath.Join(t.TempDir(), "key"), t.TempDir()
	recipient := strings.TrimSpace(p.must("backup", "keygen", key))
	p.must("backup", "create", "--to", to, "--recipient", recipient)
	backups, err := os.ReadDir(to)
	if err != nil || len(backups) != 1 {
		t.Fatalf("backups are %v: %v", backups, err)
	}
	file := filepath.Join(to, backups[0].Name())
	p.must("backup", "verify", file, "--identity", key)
	if out, err := p.run("restore", file, "--identity", key, "--replace"); err == nil {
		t.Errorf("restored over a plane that serves: %s", out)
	}

	prober := live.StartProber(t, p.Name, live.AskAPIServer(p.endpoint))
	begin := time.Now()
	p.must("cluster", "scale", "local", "--pool", "pool=1", "--wait")
	p.mustKubectl("", "create", "configmap", "unknown")
	seen := p.mustKubectl("", "get", "configmap", "unknown", "-o", "jsonpath={.metadata.resourceVersion}")
	nodes := p.nodes()
	p.KillAll(t)
	p.must("restore", file, "--identity", key, "--replace")
	p.must(append([]string{"up", "--fast", "--no-cluster", "--hosts", "0"}, p.Flags()...)...)

	if out, err := p.kubectl("", "get", "configmap", "unknown"); err == nil {
		t.Errorf("the restored plane has what came after the backup: %s", out)
	}
	// Somebody who watched the former plane must not wait for its revision to come again.
	out, err := p.kubectl("", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1&resourceVersion=%s", seen))
	if !strings.Contains(out, `"code":410`) && (err == nil || !strings.Contains(err.Error(), "too old resource version")) {
		t.Errorf("a watch from what was seen before gets %q, %v, want that it has expired", out, err)
	}
	p.eventually("two workers again", workers(2))
	for name, uid := range nodes {
		if now := p.nodes()[name]; now != uid {
			t.Errorf("node %s was %s and is %q: its host was reset", name, uid, now)
		}
	}
	prober.End()
	if gap, failures := prober.LongestGap(begin); len(failures) > 0 {
		t.Errorf("the cluster did not answer for %s: %v", gap, failures)
	}
}

// workers says what is missing until the cluster has so many in its pool, Ready.
func workers(n int) func(status) string {
	return func(s status) string {
		if len(s.Clusters) != 1 || len(s.Clusters[0].Pools) == 0 {
			return "no pool"
		}
		ready := 0
		for _, node := range s.Clusters[0].Nodes {
			if node.Ready {
				ready++
			}
		}
		if pool := s.Clusters[0].Pools[0]; pool.Desired != n || pool.Ready != n || ready != n+1 {
			return fmt.Sprintf("%d of %d are ready, %d nodes", pool.Ready, pool.Desired, ready)
		}
		return ""
	}
}

// nodes of the cluster, with their UIDs.
func (p *plane) nodes() map[string]string {
	p.t.Helper()
	uids := map[string]string{}
	for line := range strings.Lines(p.mustKubectl("local", "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
		name, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		uids[name] = uid
	}
	return uids
}
