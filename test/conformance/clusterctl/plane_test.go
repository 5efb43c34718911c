package clusterctl

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// livePlane is a plane of this repository, and who uses it.
type livePlane struct {
	*user
	live.Plane
}

// newLivePlane is down.
func newLivePlane(t *testing.T) *livePlane {
	t.Helper()
	if os.Getuid() != 0 {
		rights.Skip(t, "a plane needs root")
	}
	p := &livePlane{user: newUser(t, shared.repository), Plane: live.New(t)}
	t.Cleanup(func() {
		p.t = t
		if t.Failed() {
			p.dump()
		}
		p.slipway("down", "--purge", "--yes")
	})
	return p
}

// up brings the plane up.
func (p *livePlane) up(args ...string) {
	p.t.Helper()
	begin := time.Now()
	p.slipway(append(append([]string{"up", "--fast"}, p.Flags()...), args...)...)
	p.t.Logf("slipway up, %s: %.1fs", p.Name, time.Since(begin).Seconds())
	p.kubeconfig = p.slipway("kubeconfig")
}

// slipway runs it on the plane and returns what it prints.
func (p *livePlane) slipway(args ...string) string {
	p.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(shared.slipway, append([]string{"--state-dir", p.StateDir}, args...)...)
	cmd.Env, cmd.Stderr = p.Environ(), &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("slipway %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// dump shows what an operator would look at.
func (p *livePlane) dump() {
	const last = 4000
	for _, args := range [][]string{
		{shared.slipway, "--state-dir", p.StateDir, "status", "-o", "wide"},
		{shared.kubectl, "--kubeconfig", p.kubeconfig, "get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		p.t.Logf("%s: %s (%v)\n%s", p.Name, strings.Join(args[1:], " "), err, out[max(0, len(out)-last):])
	}
	logs, _ := filepath.Glob(filepath.Join(p.StateDir, "hosts/*/var/log/slipway-agent.log"))
	for _, log := range append(logs, filepath.Join(p.StateDir, "plane.log")) {
		text, _ := os.ReadFile(log)
		p.t.Logf("%s\n%s", log, text[max(0, len(text)-last):])
	}
}

// What every template makes is taken by the plane's admission, and Cluster API begins
// to work on it: the objects are owned, and the topology is reconciled.
func TestTemplatesOnPlane(t *testing.T) {
	begin(t, 1)
	plane := newLivePlane(t)
	plane.up("--no-cluster", "--hosts", "0")
	for i, flavor := range flavors {
		name := "demo-" + strings.TrimSuffix("default-"+flavor, "-")
		t.Run(name, func(t *testing.T) {
			u := *plane.user
			u.t = t
			address := fmt.Sprintf("10.88.0.%d", 200+i)
			u.kubectl("", "create", "namespace", name)
			if flavor == "" {
				// the plane runs no release, so that the version must be named
				u.follow("Templates", "", "192.0.2.10", address, "NAMESPACE", name, " demo ", " "+name+" ", "--infrastructure slipway ", "--infrastructure slipway:"+oldVersion+" ")
			} else {
				u.env = []string{"SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST=" + address}
				objects := u.run("generate", "cluster", name, "--infrastructure", "slipway:"+oldVersion, "--flavor", flavor,
					"--kubernetes-version", versions.Plane().Version, "--target-namespace", name)
				u.kubectl(objects, "apply", "-f", "-")
			}
			u.await(name, "hostcluster", "--for=jsonpath={.status.initialization.provisioned}=true")
			u.await(name, "cluster/"+name, "--for=jsonpath={.status.initialization.infrastructureProvisioned}=true")
			u.await(name, "kubeadmcontrolplane", "--for=jsonpath={.metadata.ownerReferences[0].kind}=Cluster")
			if flavor == "clusterclass" {
				u.await(name, "cluster/"+name, "--for=condition=TopologyReconciled")
			}
			// The plane can be moved from: clusterctl finds its providers and their kinds.
			if plan := u.run("move", "--dry-run", "-n", name, "-v", "1"); !strings.Contains(plan, "Creating HostCluster=") {
				t.Errorf("clusterctl would not move the HostCluster:\n%s", plan)
			}
			if described := u.run("describe", "cluster", name, "-n", name, "--show-conditions", "all"); !strings.Contains(described, "HostCluster "+name+"/") {
				t.Errorf("clusterctl describe does not show the HostCluster:\n%s", described)
			}
		})
	}
}

// await waits for all objects of a kind in a namespace, once there is one.
func (u *user) await(namespace, what, condition string) {
	u.t.Helper()
	args := []string{"--kubeconfig", u.kubeconfig, "-n", namespace, "wait", what, condition, live.Waits()}
	if !strings.Contains(what, "/") {
		args = append(args, "--all")
	}
	poll.Until(u.t, what+" is "+condition, func() error {
		out, err := exec.Command(shared.kubectl, args...).CombinedOutput()
		// there may be none yet
		if err != nil && !strings.Contains(string(out), "no matching resources") {
			u.t.Fatalf("kubectl wait %s %s: %v\n%s\n%s", what, condition, err, out, u.kubectl("", "-n", namespace, "get", "cluster-api", "-o", "wide"))
		}
		return err
	})
}
