package effects_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/fakehost"
)

const (
	oldVersion = "v1.35.4"
	newVersion = "v1.36.3"
)

// worker is a host of the old version that also has the new one and was bootstrapped
// for real, shells and all.
func worker(t *testing.T) (*fakehost.Host, string) {
	t.Helper()
	h, path := twoVersions(t)
	spec := hostSpec(infrav1.HostDesiredBootstrapped, "boot")
	spec.Desired.Version = oldVersion
	if s, _ := process(t, h, path, spec, 0); s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("the bootstrap is %+v", s.Operation)
	}
	h.MakeWorker(t)
	return h, path
}

// claimedWorker only has the journal of such a host, which takes a tenth of the time.
func claimedWorker(t *testing.T) (*fakehost.Host, string) {
	t.Helper()
	h, path := twoVersions(t)
	h.MakeWorker(t)
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	if err := h.Executor.Versions.Select(t.Context(), oldVersion); err != nil {
		t.Fatal(err)
	}
	err = j.Update(func(s *journal.State) {
		s.ClaimGeneration, s.ClaimID, s.BootstrappedClaimID, s.Residue = 1, "claim", "claim", journal.ResidueCommands
		s.IgnoredChecks = []string{"Swap", "SystemVerification"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, path
}

func twoVersions(t *testing.T) (*fakehost.Host, string) {
	t.Helper()
	h, path := fakehost.New(t), filepath.Join(t.TempDir(), "journal")
	h.Install(t, oldVersion)
	h.Install(t, newVersion)
	h.Node.Report(oldVersion, h.Clock)
	h.Node.Server = newVersion
	h.Node.AddPod("app", "ReplicaSet")
	h.Node.AddPod("proxy", "DaemonSet")
	h.Node.AddPod("static", "", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	h.Node.AddPod("done", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	return h, path
}

func upgradeSpec(version string) *infrav1.HostSpec {
	spec := hostSpec(infrav1.HostDesiredUpgraded, "upgrade-claim-"+version)
	spec.Desired.Version = version
	return spec
}

func node(t *testing.T, h *fakehost.Host) *corev1.Node {
	t.Helper()
	n, err := h.Node.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func assertUpgraded(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("the operation is %+v", s.Operation)
	}
	n := node(t, h)
	if n.Status.NodeInfo.KubeletVersion != newVersion || n.Spec.Unschedulable || n.Annotations[upgrade.CordonAnnotation] != "" {
		t.Errorf("the Node runs %s, unschedulable %t, annotations %v", n.Status.NodeInfo.KubeletVersion, n.Spec.Unschedulable, n.Annotations)
	}
	if !slices.Equal(h.Node.Evicted, []string{"app"}) {
		t.Errorf("evicted are %v, want app alone, once", h.Node.Evicted)
	}
	for _, program := range []string{"kubeadm", "kubelet", "kubectl"} {
		if target, _ := os.Readlink(h.Root.Path("/usr/local/bin/" + program)); target != filepath.Join(fakehost.Directory, newVersion, program) {
			t.Errorf("%s is %s", program, target)
		}
	}
	newKubeadm := h.Root.Path(filepath.Join(fakehost.Directory, newVersion, "kubeadm")) + " upgrade node --ignore-preflight-errors=Swap,SystemVerification"
	ran := h.Programs.Ran()
	kubeadm := slices.Index(ran, newKubeadm)
	if kubeadm < 0 || kubeadm > slices.Index(ran, "systemctl restart kubelet") {
		t.Errorf("%s did not run before the kubelet was restarted: %q", newKubeadm, ran)
	}
}

func TestUpgrade(t *testing.T) {
	h, path := worker(t)
	h.Node.Conflicts = 2
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	assertUpgraded(t, h, s)
	if s.BootstrappedClaimID != "claim" {
		t.Error("the host counts as not bootstrapped any more")
	}

	// The same once more, as after an operation of another name: nothing is touched.
	before := len(h.Programs.Ran())
	again := upgradeSpec(newVersion)
	again.Desired.OperationID = "again"
	h.Node.AddPod("app-2", "ReplicaSet")
	s, _ = process(t, h, path, again, 0)
	assertUpgraded(t, h, s)
	for _, line := range h.Programs.Ran()[before:] {
		if !strings.Contains(line, "version") && !strings.HasPrefix(line, "systemctl cat") {
			t.Errorf("%q ran although the node is of the version", line)
		}
	}

	s, _ = process(t, h, path, hostSpec(infrav1.HostDesiredReset, "reset"), 0)
	assertClean(t, h, s)
	if _, err := os.Lstat(h.Root.Path("/usr/local/bin/kubelet")); err == nil || s.Programs != nil {
		t.Errorf("the choice of a version outlives the reset (%v)", s.Programs)
	}
}

// TestKillUpgradeAtEveryRecord ends the agent before each record of an upgrade. The
// next life must finish it and leave no cordon behind.
func TestKillUpgradeAtEveryRecord(t *testing.T) {
	t.Parallel()
	for at := range level.Endless() {
		crashed := false
		t.Run(fmt.Sprintf("record %d", at), func(t *testing.T) {
			h, path := claimedWorker(t)
			_, crashed = process(t, h, path, upgradeSpec(newVersion), at)
			s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
			assertUpgraded(t, h, s)
		})
		if !crashed || t.Failed() {
			break
		}
	}
}

// A power cut at each write of kubeadm leaves a kubelet that does not start, until the agent
// mends what it reads.
func TestPowerCutAtEveryWriteOfKubeadmOnAWorker(t *testing.T) {
	t.Parallel()
	cutAtEveryWrite(t, func(t *testing.T) (*fakehost.Host, *fakehost.Kubelet, string, func(journal.State)) {
		h, path := claimedWorker(t)
		k := h.MakeWorker(t)
		return h, k, path, func(s journal.State) {
			assertUpgraded(t, h, s)
			if !k.Starts() || !k.Configured() {
				t.Error("the kubelet has not the configuration of the new version")
			}
			if left, err := os.ReadDir(h.Root.Path("/etc/kubernetes/slipway")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		}
	})
}

func TestUpgradeKeepsSomebodyElsesCordon(t *testing.T) {
	h, path := claimedWorker(t)
	h.Node.Change(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	if n := node(t, h); s.Operation.State != infrav1.OperationSucceeded || n.Status.NodeInfo.KubeletVersion != newVersion || !n.Spec.Unschedulable {
		t.Errorf("operation %+v, Node %+v", s.Operation, n.Spec)
	}
}

func TestDrainTimeoutGivesTheNodeBack(t *testing.T) {
	h, path := claimedWorker(t)
	h.Node.Budgets = []string{"app"}
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	op := s.Operation
	if op.State != infrav1.OperationFailed || op.Reason != operation.ReasonDrainTimeout || !strings.Contains(op.Message, "default/app (held by a disruption budget since ") {
		t.Fatalf("the operation is %+v", op)
	}
	n := node(t, h)
	if n.Spec.Unschedulable || n.Annotations[upgrade.CordonAnnotation] != "" || n.Status.NodeInfo.KubeletVersion != oldVersion || h.Programs.RanPrefix("systemctl restart") != 0 {
		t.Errorf("the Node was not given back: %+v", n)
	}
}

func TestUpgradesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		before  func(*fakehost.Host)
		reason  string
		part    string
	}{
		"downgrade":       {"v1.34.9", nil, operation.ReasonDowngrade, "v1.34.9"},
		"two minors":      {"v1.37.0", nil, operation.ReasonVersionSkew, "v1.36 first"},
		"not installed":   {"v1.36.9", nil, "VersionUnavailable", "v1.36.9"},
		"preflight fails": {newVersion, func(h *fakehost.Host) { failKubeadm(h, " upgrade node phase preflight") }, operation.ReasonKubeadmFailed, "exit code 1"},
		"kubeadm fails":   {newVersion, func(h *fakehost.Host) { failKubeadm(h, " upgrade node --") }, operation.ReasonKubeadmFailed, "exit code 1"},
		"kubelet is dead": {newVersion, func(h *fakehost.Host) { h.Programs.On = nil }, operation.ReasonNodeNotReady, "still reports v1.35.4"},
		"kubelet refuses": {newVersion, func(h *fakehost.Host) {
			h.Programs.Answer = map[string]string{"sh -c": `E1129 1 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --gone"` + "\n"}
		}, operation.ReasonConfigurationRefused, "the kubelet of v1.36.3 would not start: failed to parse kubelet flag: unknown flag: --gone; nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			h, path := claimedWorker(t)
			for _, v := range []string{"v1.34.9", "v1.37.0"} {
				h.Install(t, v)
			}
			h.Node.Server = "v1.37.0"
			if c.before != nil {
				c.before(h)
			}
			s, _ := process(t, h, path, upgradeSpec(c.version), 0)
			if n := node(t, h); c.reason != operation.ReasonNodeNotReady && n.Spec.Unschedulable {
				t.Error("the Node is left cordoned although its old kubelet runs")
			}
			if c.reason == operation.ReasonConfigurationRefused && (len(h.Node.Evicted) > 0 || h.Programs.RanPrefix("systemctl restart") > 0) {
				t.Errorf("evicted are %v", h.Node.Evicted)
			}
			if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != c.reason || !strings.Contains(s.Operation.Message, c.part) {
				t.Errorf("the operation is %+v, want %s with %q", s.Operation, c.reason, c.part)
			}
		})
	}
}

// endingKubelet has the kubelet of the new version end again and again after its start.
func endingKubelet(t *testing.T, h *fakehost.Host) {
	t.Helper()
	pid := 100
	linked := func() string {
		target, _ := os.Readlink(h.Root.Path("/usr/local/bin/kubelet"))
		return filepath.Base(filepath.Dir(target))
	}
	h.Programs.Answer = map[string]string{"journalctl": "I1129 1 server.go:1] \"Kubelet version\"\nE1129 1 run.go:72] \"command failed\" err=\"no such socket\"\n"}
	h.Put(t, "/proc/100/cmdline", "kubelet\x00--config=/var/lib/kubelet/config.yaml\x00--max-pods=10\x00")
	h.Programs.On = map[string]func(){
		"systemctl show": func() {
			if linked() != newVersion {
				h.Programs.Answer["systemctl show"] = "100\n"
				return
			}
			// Every other time it is looked at, none runs.
			pid++
			h.Programs.Answer["systemctl show"] = fmt.Sprintln(pid % 2 * pid)
		},
		"systemctl restart kubelet": func() {
			if v := linked(); v != newVersion {
				h.Node.Report(v, h.Clock)
			}
		},
	}
}

// A kubelet that does not stay up gives way to the one before: the node serves on.
func TestUpgradeGoesBackWhenTheKubeletEnds(t *testing.T) {
	h, path := claimedWorker(t)
	endingKubelet(t, h)
	began := h.Clock
	s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
	assertGivenBack(t, h, s)
	if took := h.Clock.Sub(began); took > time.Minute {
		t.Errorf("it took %s of the host's clock", took)
	}
	// Mended, the same upgrade goes through.
	h.Programs.Answer = nil
	h.Programs.On = map[string]func(){"systemctl restart kubelet": func() { h.Node.Report(newVersion, h.Clock) }}
	again := upgradeSpec(newVersion)
	again.Desired.OperationID = "again"
	h.Node.AddPod("app", "ReplicaSet")
	h.Node.Evicted = nil
	s, _ = process(t, h, path, again, 0)
	assertUpgraded(t, h, s)
}

// TestKillGoingBackAtEveryRecord ends the agent before each record of an upgrade that is to be
// taken back. The next life must take it back as well.
func TestKillGoingBackAtEveryRecord(t *testing.T) {
	t.Parallel()
	for at := range level.Endless() {
		crashed := false
		t.Run(fmt.Sprintf("record %d", at), func(t *testing.T) {
			h, path := claimedWorker(t)
			endingKubelet(t, h)
			_, crashed = process(t, h, path, upgradeSpec(newVersion), at)
			s, _ := process(t, h, path, upgradeSpec(newVersion), 0)
			assertGivenBack(t, h, s)
		})
		if !crashed || t.Failed() {
			break
		}
	}
}

func assertGivenBack(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	op := s.Operation
	if op.State != infrav1.OperationFailed || op.Reason != operation.ReasonNodeNotReady ||
		!strings.Contains(op.Message, "the kubelet of v1.36.3 ended 3 times after its start: no such socket; the node serves on with its former version") {
		t.Fatalf("the operation is %+v", op)
	}
	n := node(t, h)
	if n.Spec.Unschedulable || n.Annotations[upgrade.CordonAnnotation] != "" || n.Status.NodeInfo.KubeletVersion != oldVersion {
		t.Errorf("the Node is not given back: unschedulable %t, annotations %v, version %s", n.Spec.Unschedulable, n.Annotations, n.Status.NodeInfo.KubeletVersion)
	}
	if target, _ := os.Readlink(h.Root.Path("/usr/local/bin/kubelet")); target != filepath.Join(fakehost.Directory, oldVersion, "kubelet") {
		t.Errorf("the kubelet on PATH is %s", target)
	}
	if config, err := h.Root.ReadFile("/var/lib/kubelet/config.yaml"); err != nil || strings.Contains(string(config), "new: true") {
		t.Errorf("the configuration of the kubelet is %q, %v", config, err)
	}
	if left, err := os.ReadDir(h.Root.Path("/etc/kubernetes/slipway")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func failKubeadm(h *fakehost.Host, args string) {
	h.Programs.Fail = map[string]int{h.Root.Path(filepath.Join(fakehost.Directory, newVersion, "kubeadm")) + args: 1}
}

// TestUpgradeWaitsForTheControlPlane holds that neither a control plane that is
// older nor one that is away counts as a failure.
func TestUpgradeWaitsForTheControlPlane(t *testing.T) {
	for name, hinder := range map[string]func(*fakehost.Node, bool){
		"older": func(n *fakehost.Node, on bool) {
			n.Server = map[bool]string{true: oldVersion, false: newVersion}[on]
		},
		"away": func(n *fakehost.Node, on bool) { n.Down = on },
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := claimedWorker(t)
			p := newRecord(t)
			hinder(h.Node, true)
			err := operation.AsError(h.Executor.Upgrade(t.Context(), operation.Upgrade{Version: newVersion}, p))
			if err.Retry != operation.RetryLater || h.Node.Evicted != nil {
				t.Fatalf("error is %+v, evicted %v", err, h.Node.Evicted)
			}
			hinder(h.Node, false)
			if err := h.Executor.Upgrade(t.Context(), operation.Upgrade{Version: newVersion}, p); err != nil {
				t.Fatal(err)
			}
		})
	}
}
