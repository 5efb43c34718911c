package effects_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// record is an operation.Progress on a journal in memory.
type record struct{ *journal.Journal }

func (r record) Begin(step string) error {
	return r.Update(func(s *journal.State) { s.Operation.Step, s.Operation.Active = step, true })
}
func (record) Done() error { return nil }

func newRecord(t *testing.T) record {
	t.Helper()
	j := journal.InMemory()
	err := j.Update(func(s *journal.State) {
		s.Operation = &journal.Operation{Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning}
		s.CleanProof = &infrav1.CleanProof{}
	})
	if err != nil {
		t.Fatal(err)
	}
	return record{j}
}

func TestOperationsThatCannotSucceedTouchNothing(t *testing.T) {
	for name, c := range map[string]struct {
		requested operation.Bootstrap
		before    func(*fakehost.Host)
		reason    string
		part      string
	}{
		"ignition by format": {operation.Bootstrap{Format: "ignition", Data: []byte("{}")}, nil, cloudconfig.ReasonUnsupportedFormat, "cloud-config"},
		"unsupported key":    {operation.Bootstrap{Data: []byte("#cloud-config\nmounts: [[a, b]]\n")}, nil, cloudconfig.ReasonUnsupportedCloudConfig, "mounts"},
		"unknown variable":   {operation.Bootstrap{Data: []byte("## template: jinja\n#cloud-config\nhostname: {{ ds.meta_data.zone }}\n")}, nil, cloudconfig.ReasonInvalidTemplate, "zone"},
		"a branch by the system": {operation.Bootstrap{Data: []byte("## template: jinja\n#cloud-config\n{% if v1.distro == 'debian' and machine and kernel_release %}\nmounts: [[a, b]]\n{% endif %}\n")}, func(h *fakehost.Host) {
			_ = os.WriteFile(h.Root.Path("/etc/os-release"), []byte("ID=debian\n"), 0o644)
		}, cloudconfig.ReasonUnsupportedCloudConfig, "mounts"},
		"version": {operation.Bootstrap{Version: "v1.99.0", Data: []byte("#cloud-config\n")}, nil, "VersionUnavailable", "v1.99.0"},
		"foreign kubelet": {operation.Bootstrap{Data: []byte("#cloud-config\n")}, func(h *fakehost.Host) {
			_ = os.MkdirAll(h.Root.Path("/var/lib/kubelet"), 0o755)
			_ = os.WriteFile(h.Root.Path("/var/lib/kubelet/config.yaml"), nil, 0o600)
		}, operation.ReasonNotClean, "/var/lib/kubelet/config.yaml"},
		"own endpoint": {operation.Bootstrap{VirtualIP: "10.0.0.5", InitializesControlPlane: true, Data: []byte("#cloud-config\n")}, nil, operation.ReasonVirtualIPFailed, "10.0.0.5 is this host's own address, on eth0"},
		"own endpoint, on lo": {operation.Bootstrap{VirtualIP: "10.255.0.5", Data: []byte("#cloud-config\n")}, func(h *fakehost.Host) {
			interfaces := h.Executor.Interfaces
			h.Executor.Interfaces = func() ([]nodeaddress.Interface, error) {
				all, err := interfaces()
				return append(all, nodeaddress.Interface{Name: "lo", Loopback: true, Addresses: []nodeaddress.Address{{Addr: netip.MustParseAddr("10.255.0.5")}}}), err
			}
		}, operation.ReasonVirtualIPFailed, "10.255.0.5 is this host's own address, on lo"},
		"own endpoint, other text": {operation.Bootstrap{VirtualIP: "::ffff:10.0.0.5", Data: []byte("#cloud-config\n")}, nil, operation.ReasonVirtualIPFailed, "own address"},
		"virtual IP":               {operation.Bootstrap{VirtualIP: "10.0.0", Data: []byte("#cloud-config\n")}, nil, operation.ReasonVirtualIPFailed, "10.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			if c.before != nil {
				c.before(h)
			}
			e := operation.AsError(h.Executor.Bootstrap(t.Context(), c.requested, p))
			if e.Reason != c.reason || e.Retry != operation.RetryNever || !strings.Contains(e.Message, c.part) {
				t.Fatalf("error is %+v, want %s with %q", e, c.reason, c.part)
			}
			if _, err := os.Stat(h.Root.Path("/etc/default/kubelet")); err == nil {
				t.Error("the kubelet's arguments were written")
			}
		})
	}
}

func TestBaselineIsRecordedBeforeTheProofGoes(t *testing.T) {
	h, p := fakehost.New(t), newRecord(t)
	if err := os.MkdirAll(filepath.Dir(h.Root.Path("/etc/cni/net.d/x")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Root.Path("/etc/cni/net.d/00-own.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n")}, p); err != nil {
		t.Fatal(err)
	}
	s := p.State()
	if s.Baseline == nil || s.Baseline.Record == "" || s.CleanProof != nil || s.Residue != journal.ResidueFiles {
		t.Fatalf("journal is %+v", s)
	}
}

// usersCommands are preKubeadmCommands and postKubeadmCommands of a KubeadmControlPlane, which
// are for all of its machines.
var usersCommands = []string{
	"true",
	"true || kubeadm init phase upload-config all --config /run/kubeadm/kubeadm.yaml",
	"true || kubeadm init phase upload-certs --upload-certs",
	"echo kubeadm init is done > /dev/null",
	"true || kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml",
}

// The operation says which host makes the control plane, whatever commands it has.
func TestCommandsDoNotChooseTheInitHost(t *testing.T) {
	virtual := netip.MustParseAddr("10.0.0.200")
	for _, kubeadm := range []string{"kubeadm init --config /run/kubeadm/kubeadm.yaml", "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml", "k0s controller"} {
		for _, users := range usersCommands {
			for _, initializes := range []bool{true, false} {
				h, p := fakehost.New(t), newRecord(t)
				h.Candidate = func() vip.Candidate { return effects.Candidate("host-2", p.State()) }
				data := fmt.Sprintf("#cloud-config\nruncmd:\n- %q\n- %q\n- %q\n", users, "true || "+kubeadm, users)
				err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data), VirtualIP: virtual.String(), InitializesControlPlane: initializes}, p)
				if err != nil {
					t.Fatal(err)
				}
				if h.Network.Has(virtual.String()) != initializes || p.State().VirtualIP != virtual.String() || p.State().Operation.InitializesControlPlane != initializes {
					t.Errorf("%s, users' command %s, initializes %t: address held: %t, journal %+v", kubeadm, users, initializes, !initializes, p.State())
				}
			}
		}
	}
}

// Nor does any other part of the data, however it is encoded.
func TestDataDoesNotChooseTheInitHost(t *testing.T) {
	const words = "kubeadm init --config /run/kubeadm/kubeadm.yaml"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(words)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"a file":            "write_files: [{path: /opt/init, content: " + strconv.Quote(words) + "}]",
		"the file of init":  "write_files: [{path: /run/kubeadm/kubeadm.yaml, content: \"apiVersion: kubeadm.k8s.io/v1beta4\\nkind: InitConfiguration\\n\"}]",
		"base64":            "write_files: [{path: /opt/init, encoding: b64, content: " + base64.StdEncoding.EncodeToString([]byte(words)) + "}]",
		"gzip":              "write_files: [{path: /opt/init, encoding: gz+b64, content: " + base64.StdEncoding.EncodeToString(packed.Bytes()) + "}]",
		"of another owner":  "users: [{name: ann}]\nwrite_files: [{path: /opt/init, owner: ann, defer: true, content: " + strconv.Quote(words) + "}]",
		"appended":          "write_files: [{path: /etc/hosts, append: true, content: " + strconv.Quote("# "+words) + "}]",
		"an account":        "users: [{name: ann, gecos: " + strconv.Quote(words) + "}]",
		"a time server":     "ntp: {enabled: true, servers: [kubeadm-init.example.com]}",
		"before all others": "bootcmd: [" + strconv.Quote("true || "+words) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			h.Put(t, "/etc/chrony.conf", "pool own iburst\n")
			h.Candidate = func() vip.Candidate { return effects.Candidate("host-2", p.State()) }
			data := "#cloud-config\n" + data + "\nruncmd: [true || kubeadm join]\n"
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data), VirtualIP: "10.0.0.200"}, p); err != nil {
				t.Fatal(err)
			}
			if h.Network.Has("10.0.0.200") || p.State().Operation.InitializesControlPlane {
				t.Errorf("it has the address, journal %+v", p.State().Operation)
			}
		})
	}
}

// A host joins while another one has the address, as always when one joins.
func TestJoinWhileTheAddressIsHeld(t *testing.T) {
	for _, users := range usersCommands {
		h, p := fakehost.New(t), newRecord(t)
		h.Candidate = func() vip.Candidate { return effects.Candidate("host-2", p.State()) }
		h.Network.Neighbour = "02:00:00:00:00:01"
		data := fmt.Sprintf("#cloud-config\nruncmd:\n- %q\n", users)
		if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data), VirtualIP: "10.0.0.200"}, p); err != nil {
			t.Errorf("%s: %v (retry %d)", users, err, operation.AsError(err).Retry)
		}
	}
}

func TestVirtualIPInUse(t *testing.T) {
	h := fakehost.New(t)
	p := newRecord(t)
	h.Candidate = func() vip.Candidate { return effects.Candidate("host-1", p.State()) }
	h.Network.Neighbour = "02:00:00:00:00:99"
	data := "#cloud-config\nruncmd:\n- true || kubeadm init\n"
	err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data), VirtualIP: "10.0.0.200", InitializesControlPlane: true}, p)
	e := operation.AsError(err)
	if err == nil || e.Reason != operation.ReasonVirtualIPFailed || e.Retry != operation.RetryLater || !strings.Contains(e.Message, h.Network.Neighbour) {
		t.Fatalf("error is %+v", e)
	}
}
