package clusterctl

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// livePlane is a plane of this repository without hosts.
func (u *user) livePlane() {
	u.t.Helper()
	if os.Getuid() != 0 {
		rights.Skip(u.t, "a plane needs root")
	}
	dir, err := os.MkdirTemp("", "clusterctl-plane-")
	if err != nil {
		u.t.Fatal(err)
	}
	slipway := func(args ...string) string {
		out, err := exec.Command(shared.slipway, append([]string{"--state-dir", dir}, args...)...).CombinedOutput()
		if err != nil {
			u.t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	u.t.Cleanup(func() {
		slipway("down", "--purge")
		_ = os.RemoveAll(dir)
	})
	slipway("up", "--no-cluster", "--hosts", "0", "--fast", "--name", "clusterctl", "--api-port", "36591")
	u.kubeconfig = slipway("kubeconfig")
}

// What every template makes is taken by the plane's admission, and Cluster API begins
// to work on it: the objects are owned, and the topology is reconciled.
func TestTemplatesOnPlane(t *testing.T) {
	skipShort(t)
	u := newUser(t, shared.repository)
	u.livePlane()
	for i, flavor := range flavors {
		name := "demo-" + strings.TrimSuffix("default-"+flavor, "-")
		t.Run(name, func(t *testing.T) {
			u := *u
			u.t = t
			u.env = []string{fmt.Sprintf("SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST=10.88.0.%d", 200+i)}
			u.kubectl("", "create", "namespace", name)
			objects := u.run("generate", "cluster", name, "--infrastructure", "slipway:"+oldVersion, "--flavor", flavor,
				"--kubernetes-version", "v1.36.3", "--target-namespace", name)
			u.kubectl(objects, "apply", "-f", "-")
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
	args := []string{"--kubeconfig", u.kubeconfig, "-n", namespace, "wait", what, condition, "--timeout=60s"}
	if !strings.Contains(what, "/") {
		args = append(args, "--all")
	}
	var out []byte
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if out, err = exec.Command(shared.kubectl, args...).CombinedOutput(); err == nil {
			return
		}
		// there may be none yet
		if !strings.Contains(string(out), "no matching resources") {
			break
		}
	}
	u.t.Errorf("kubectl wait %s %s: %v\n%s\n%s", what, condition, err, out, u.kubectl("", "-n", namespace, "get", "cluster-api", "-o", "wide"))
}
