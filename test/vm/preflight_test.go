package vm

import (
	"encoding/json"
	"strings"
	"testing"
)

// finding is what `slipway-agent preflight -o json` promises for a check.
type finding struct{ Check, Level, Message, Remedy string }

// findings are those of a check on the machine.
func (m *Machine) findings(t *testing.T, check string) []finding {
	t.Helper()
	var report struct{ Findings []finding }
	out := m.must(t, "slipway-agent preflight -o json || true")
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var found []finding
	for _, f := range report.Findings {
		if f.Check == check {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		t.Errorf("preflight has nothing of %s:\n%s", check, out)
	}
	return found
}

// remedied spoils what a host needs, and does what preflight says, to the letter: the finding
// is gone then. What takes a reboot, a package or a person is not among it.
func remedied(t *testing.T, l *life) {
	m := l.machine
	for _, c := range []struct{ check, spoil, restore string }{
		{
			"swap", "fallocate -l 64M /swapfile && chmod 0600 /swapfile && mkswap /swapfile && cp -p /etc/fstab /etc/fstab.kept && echo '/swapfile none swap sw 0 0' >>/etc/fstab && swapon -a",
			"grep -q '^#/swapfile' /etc/fstab && rm /swapfile && mv /etc/fstab.kept /etc/fstab",
		},
		{"kernel-modules", "modprobe -r br_netfilter", "rm /etc/modules-load.d/kubernetes.conf"},
		{"sysctl", "sysctl -w net.ipv4.ip_forward=0", "rm /etc/sysctl.d/90-kubernetes.conf"},
		{"name-resolution", "cp -p /etc/resolv.conf /etc/resolv.conf.kept && : >/etc/resolv.conf", "mv /etc/resolv.conf.kept /etc/resolv.conf"},
		{"container-runtime", "systemctl disable --now slipway-containerd", ""},
		{"kubernetes", "systemctl disable kubelet", ""},
	} {
		t.Run(c.check, func(t *testing.T) {
			m.must(t, c.spoil)
			var remedies []string
			for _, f := range m.findings(t, c.check) {
				if f.Level == "OK" || f.Remedy == "" {
					t.Errorf("preflight finds %+v", f)
				}
				// alternatives for other situations follow
				remedy, _, _ := strings.Cut(f.Remedy, ";")
				remedies = append(remedies, strings.ReplaceAll(remedy, "ADDRESS", "192.0.2.53"))
			}
			t.Logf("what to do: %s\n%s", strings.Join(remedies, "\n"), m.must(t, strings.Join(remedies, "\n")))
			for _, f := range m.findings(t, c.check) {
				if f.Level != "OK" {
					t.Errorf("still, after what to do: %+v", f)
				}
			}
			if c.restore != "" {
				m.must(t, c.restore)
			}
		})
	}
}
