package effects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// controlPlaneHost is a host of a control plane of the old version that also has the new one.
func controlPlaneHost(t *testing.T) (*fakehost.Host, *fakehost.ControlPlane, string) {
	t.Helper()
	h, path := claimedWorker(t)
	return h, h.MakeControlPlane(t, oldVersion, newVersion), path
}

// assertControlPlane holds that everything on the host is of the new version, and nothing
// of the upgrade is left but one snapshot of the old etcd.
func assertControlPlane(t *testing.T, h *fakehost.Host, c *fakehost.ControlPlane, s journal.State) {
	t.Helper()
	if s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("the operation is %+v", s.Operation)
	}
	for component, tag := range map[string]string{
		"kube-apiserver": newVersion, "kube-controller-manager": newVersion, "kube-scheduler": newVersion, "etcd": fakehost.EtcdVersions[newVersion] + "-0",
	} {
		if pod := c.Pod(component); pod == nil || !strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+tag) {
			t.Errorf("%s runs as %+v, want %s", component, pod, tag)
		}
	}
	if flags := c.Pod("etcd").Spec.Containers[0].Command; !slices.Contains(flags, "--new") ||
		!slices.Contains(flags, "--initial-cluster=host-1=a,host-2=b") || !slices.Contains(flags, "--initial-cluster-state=existing") || slices.Contains(flags, "--initial-cluster=host-1=a") {
		t.Errorf("etcd has the flags %q: without its data it would begin a cluster of its own", flags)
	}
	if c.Downgraded() {
		t.Error("an older etcd was started on the data of a newer one")
	}
	if s.ControlPlaneUpgrade != nil || s.EtcdSnapshot == nil || s.EtcdSnapshot.Before != newVersion {
		t.Errorf("the record is %+v, the snapshot %+v", s.ControlPlaneUpgrade, s.EtcdSnapshot)
	}
	if slices.Contains(c.Snapshots, fakehost.EtcdVersions[newVersion]) {
		t.Errorf("snapshots of etcd %v were taken", c.Snapshots)
	}
	if got := read(t, h, s.EtcdSnapshot.Path); got != "snapshot" {
		t.Errorf("the snapshot is %q", got)
	}
	if left, _ := filepath.Glob(h.Root.Path("/etc/kubernetes/slipway/*")); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	if n := node(t, h); n.Status.NodeInfo.KubeletVersion != newVersion || n.Spec.Unschedulable || len(h.Node.Evicted) > 0 {
		t.Errorf("the Node runs %s, unschedulable %t, evicted %v", n.Status.NodeInfo.KubeletVersion, n.Spec.Unschedulable, h.Node.Evicted)
	}
	info, err := os.Stat(h.Root.Path(s.EtcdSnapshot.Path))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot has mode %v: %v", info.Mode(), err)
	}
}

func TestUpgradeControlPlane(t *testing.T) {
	h, c, path := controlPlaneHost(t)
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	assertControlPlane(t, h, c, s)
	if len(c.Snapshots) != 1 || c.HandOvers != 2 {
		t.Errorf("%d snapshots, the address was handed over %d times", len(c.Snapshots), c.HandOvers)
	}
	before := len(h.Programs.Ran())
	again := upgradeSpec(newVersion)
	again.Desired.OperationID = "again"
	s, _ = process(t, h, path, again, 0)
	assertControlPlane(t, h, c, s)
	for _, line := range h.Programs.Ran()[before:] {
		if !strings.Contains(line, "version") && !strings.HasPrefix(line, "systemctl cat") {
			t.Errorf("%q ran although the host is of the version", line)
		}
	}
}

// TestKillControlPlaneUpgradeAtEveryRecord ends the agent before each record. The next life
// comes to the same end.
func TestKillControlPlaneUpgradeAtEveryRecord(t *testing.T) {
	t.Parallel()
	for at := range level.Endless() {
		crashed := false
		t.Run(fmt.Sprintf("record %d", at), func(t *testing.T) {
			h, c, path := controlPlaneHost(t)
			_, crashed = process(t, h, path, upgradeSpec(newVersion), at)
			s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
			assertControlPlane(t, h, c, s)
		})
		if !crashed || t.Failed() {
			break
		}
	}
}

// TestPowerCutAtEveryWriteOfKubeadm cuts the power before each write of kubeadm, and with it
// the agent: manifests are missing or empty then, and certificates without their keys.
func TestPowerCutAtEveryWriteOfKubeadm(t *testing.T) {
	t.Parallel()
	cutAtEveryWrite(t, func(t *testing.T) (*fakehost.Host, *fakehost.Kubelet, string, func(journal.State)) {
		h, c, path := controlPlaneHost(t)
		return h, &c.Kubelet, path, func(s journal.State) { assertControlPlane(t, h, c, s) }
	})
}

// cutAtEveryWrite upgrades hosts that are made alike, each of which loses its power before
// another write of kubeadm, and then once more, after which all must be as is asserted.
func cutAtEveryWrite(t *testing.T, newHost func(*testing.T) (h *fakehost.Host, kubeadm *fakehost.Kubelet, path string, assert func(journal.State))) {
	t.Helper()
	for at := range level.Endless() {
		cut := false
		t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
			h, kubeadm, path, assert := newHost(t)
			writes := 0
			kubeadm.Cut = func() bool {
				if writes++; writes == at {
					cut = true
					h.PowerCut()
				}
				return cut
			}
			if _, crashed := process(t, h, path, upgradeSpec(newVersion), 0); crashed != cut {
				t.Fatalf("the power was cut: %t, the agent ended: %t", cut, crashed)
			}
			kubeadm.Cut = nil
			s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
			assert(s)
		})
		if !cut || t.Failed() {
			break
		}
	}
}

func TestControlPlaneUpgradesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fakehost.Host, *fakehost.ControlPlane)
		reason string
		part   string
		later  bool
	}{
		"one member":  {func(_ *fakehost.Host, c *fakehost.ControlPlane) { c.Members = c.Members[:1] }, operation.ReasonControlPlaneHost, "etcd has 1 members", false},
		"two members": {func(_ *fakehost.Host, c *fakehost.ControlPlane) { c.Members = c.Members[:2] }, operation.ReasonControlPlaneHost, "etcd has 2 members", false},
		"another member is away": {func(_ *fakehost.Host, c *fakehost.ControlPlane) { c.Sick = []string{"https://10.0.0.7:2379"} },
			operation.ReasonControlPlaneWaits, "host-3 is not healthy", true},
		"a learner": {func(_ *fakehost.Host, c *fakehost.ControlPlane) { c.Members[1].Learner = true }, operation.ReasonControlPlaneWaits, "host-2 is a learner", true},
		"a member to start": {func(_ *fakehost.Host, c *fakehost.ControlPlane) {
			c.Members = append(c.Members, localetcd.Member{})
		}, operation.ReasonControlPlaneWaits, "has not started", true},
		"not asked by the cluster": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			h.Node.Config = strings.ReplaceAll(h.Node.Config, newVersion, oldVersion)
		}, operation.ReasonControlPlaneOlder, "kubeadm-config", true},
		"rootless": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			h.Node.Config = strings.ReplaceAll(h.Node.Config, "featureGates: {", "featureGates: {RootlessControlPlane: true, ")
		}, operation.ReasonControlPlaneHost, "RootlessControlPlane", false},
		"other certificates": {func(h *fakehost.Host, _ *fakehost.ControlPlane) { h.Node.Config += "certificatesDir: /srv/pki\n" }, operation.ReasonControlPlaneHost, "/srv/pki", false},
		"two minors": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			h.Put(t, "/etc/kubernetes/manifests/kube-apiserver.yaml", strings.ReplaceAll(readManifest(t, h), oldVersion, "v1.34.1"))
		}, operation.ReasonVersionSkew, "more than one minor", false},
		"etcd is not as its manifest": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			_ = os.Remove(h.Root.Path("/etc/kubernetes/manifests/etcd.yaml"))
		}, operation.ReasonControlPlaneHost, "manifest of etcd", false},
		"preflight fails": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			failKubeadm(h, " upgrade node phase preflight")
		}, operation.ReasonKubeadmFailed, "exit code 1", false},
		"the kubelet refuses": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			saysTried(h, "/kubelet ", `E1 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --gone"`)
		}, operation.ReasonConfigurationRefused, "the kubelet of v1.36.3 would not start: failed to parse kubelet flag: unknown flag: --gone; nothing was changed", false},
		"the API server refuses": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			saysTried(h, " slipway-try-kube-apiserver ", `E1 run.go:72] "command failed" err="unrecognized feature gate: Gone"`)
		}, operation.ReasonConfigurationRefused, "the kube-apiserver of v1.36.3 would not start: unrecognized feature gate: Gone; nothing was changed", false},
		"etcd refuses": {func(h *fakehost.Host, _ *fakehost.ControlPlane) {
			saysTried(h, " slipway-try-etcd ", "flag provided but not defined: -experimental-gone\nUsage:\n")
		}, operation.ReasonConfigurationRefused, "the etcd of v1.36.3 would not start: flag provided but not defined: -experimental-gone; nothing was changed", false},
	} {
		t.Run(name, func(t *testing.T) {
			h, plane, _ := controlPlaneHost(t)
			c.before(h, plane)
			files := tree(t, h)
			err := operation.AsError(h.Executor.Upgrade(t.Context(), operation.Upgrade{Version: newVersion}, newRecord(t)))
			if err.Reason != c.reason || !strings.Contains(err.Message, c.part) || (err.Retry == operation.RetryLater) != c.later {
				t.Errorf("refused with %+v, want %s with %q", err, c.reason, c.part)
			}
			if after := tree(t, h); after != files {
				t.Errorf("the host was changed:\n%s\nwas\n%s", after, files)
			}
		})
	}
}

// saysTried has a program say something when it is tried, told apart by a part of the line.
func saysTried(h *fakehost.Host, part, said string) {
	h.Programs.Answers = func(line string) (string, bool) {
		return said, strings.HasPrefix(line, "sh -c ") && strings.Contains(line, part)
	}
}

// An image that cannot be run tells nothing of its program: the upgrade goes on.
func TestStaticPodsThatCannotBeTried(t *testing.T) {
	h, c, path := controlPlaneHost(t)
	saysTried(h, " run --rm ", "ctr: image not found\n")
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	assertControlPlane(t, h, c, s)
}

// Another host that began at the same time, because somebody asked for both, is seen before
// etcd stops here.
func TestControlPlanesThatBeginTogether(t *testing.T) {
	h, c, _ := controlPlaneHost(t)
	before := read(t, h, "/etc/kubernetes/manifests/etcd.yaml")
	c.OnSnapshot = func() { c.Sick = []string{"https://10.0.0.7:2379"} }
	err := operation.AsError(h.Executor.Upgrade(t.Context(), operation.Upgrade{Version: newVersion}, newRecord(t)))
	if err.Reason != operation.ReasonControlPlaneWaits || err.Retry != operation.RetryLater || !strings.Contains(err.Message, "host-3 is not healthy") {
		t.Errorf("the upgrade ended with %+v", err)
	}
	if read(t, h, "/etc/kubernetes/manifests/etcd.yaml") != before || c.HandOvers > 0 {
		t.Error("a new etcd was started while another member was away")
	}
}

// What crashes leave of snapshots for other versions is gone at the end: each is as large as the
// database.
func TestOneSnapshotIsLeft(t *testing.T) {
	h, c, path := controlPlaneHost(t)
	for _, name := range []string{"etcd-before-v1.36.1.db", "etcd-before-v1.36.2.db.partial"} {
		h.Put(t, "/etc/kubernetes/slipway/"+name, "old")
	}
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	assertControlPlane(t, h, c, s)
}

// A host on which the new API server does not come up is reported as it is: nothing is
// taken back, and a rerun goes on.
func TestControlPlaneThatDoesNotComeUp(t *testing.T) {
	h, c, path := controlPlaneHost(t)
	c.Deaf = true
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != operation.ReasonStaticPods || s.ControlPlaneUpgrade == nil {
		t.Fatalf("the operation is %+v, the record %+v", s.Operation, s.ControlPlaneUpgrade)
	}
	c.Deaf = false
	again := upgradeSpec(newVersion)
	again.Desired.OperationID = "again"
	s, _ = process(t, h, path, again, 0)
	assertControlPlane(t, h, c, s)
	if len(c.Snapshots) != 1 {
		t.Errorf("snapshots %v: the one before the first try is the one that counts", c.Snapshots)
	}
}

func readManifest(t *testing.T, h *fakehost.Host) string {
	t.Helper()
	return read(t, h, "/etc/kubernetes/manifests/kube-apiserver.yaml")
}

// tree is the content of the control plane's files.
func tree(t *testing.T, h *fakehost.Host) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.conf", "manifests/*", "pki/*", "pki/etcd/*"} {
		files, err := filepath.Glob(h.Root.Path("/etc/kubernetes/" + pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if data, err := os.ReadFile(f); err == nil {
				fmt.Fprintf(&all, "%s\n%s\n", f, data)
			}
		}
	}
	return all.String()
}
