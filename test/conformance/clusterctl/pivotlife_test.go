package clusterctl

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// life is what stays the same of a host as long as it just runs on.
type life struct {
	// nodeUID is the Node's, and boots are what the Node and the Host call the boot.
	nodeUID, boots string
	// kubelet is the process of the kubelet and when it was started.
	kubelet string
	// claim has its ID and generation, and the operation that was requested last: a reset
	// would be another.
	claim string
}

// lives are those of the hosts that run for the cluster.
func (p *pivot) lives(t *testing.T, at *livePlane) map[string]life {
	t.Helper()
	nodes, lives := p.nodes(t, at), map[string]life{}
	for name, h := range hosts(t, at) {
		if h.Spec.Claim == nil {
			continue
		}
		node := nodes[name]
		lives[name] = life{
			nodeUID: string(node.UID),
			boots:   node.Status.NodeInfo.BootID + " " + h.Status.BootID,
			kubelet: kubelet(t, p.home.Name, name),
			claim:   fmt.Sprintf("%s %d %s", h.Spec.Claim.ClaimID, h.Spec.ClaimGeneration, ptr.Deref(h.Spec.Desired, infrav1.HostDesired{}).OperationID),
		}
	}
	return lives
}

// kubelet is the one that runs on a local host.
func kubelet(t *testing.T, plane, host string) string {
	t.Helper()
	group := regexp.MustCompile("(?m)/" + plane + "/" + host + "(/|$)")
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		dir := filepath.Dir(path)
		if comm, _ := os.ReadFile(path); string(comm) != "kubelet\n" {
			continue
		}
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || !group.Match(groups) {
			continue
		}
		// The 22nd field of all, the 20th after the name in brackets: when it started.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		return filepath.Base(dir) + " since " + fields[19]
	}
	t.Errorf("no kubelet runs on %s", host)
	return ""
}

// hosts are those that a plane has, by name.
func hosts(t *testing.T, at *livePlane) map[string]infrav1.Host {
	t.Helper()
	list := infrav1.HostList{}
	mustRead(t, at.kubeconfig, &list, "get", "hosts")
	named := map[string]infrav1.Host{}
	for _, h := range list.Items {
		named[h.Name] = h
	}
	return named
}

// nodes are those of the cluster, which a plane has.
func (p *pivot) nodes(t *testing.T, at *livePlane) map[string]corev1.Node {
	t.Helper()
	list := corev1.NodeList{}
	mustRead(t, at.slipway("kubeconfig", "local"), &list, "get", "nodes")
	named := map[string]corev1.Node{}
	for _, n := range list.Items {
		named[n.Name] = n
	}
	return named
}

func mustRead(t *testing.T, kubeconfig string, into any, args ...string) {
	t.Helper()
	if err := read(kubeconfig, into, args...); err != nil {
		t.Fatal(err)
	}
}

// read runs kubectl and decodes what it gets.
func read(kubeconfig string, into any, args ...string) error {
	out, err := exec.Command(shared.kubectl, append([]string{"--kubeconfig", kubeconfig, "-o", "json"}, args...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
