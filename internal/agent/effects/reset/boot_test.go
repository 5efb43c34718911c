package reset_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestWhatServicesAndRebootsGet: the variables of all services are restored, and a kernel that the next reboot would start is named, as is
// what somebody gave to the resolver.
func TestWhatServicesAndRebootsGet(t *testing.T) {
	h := fakehost.New(t)
	now := map[string]string{"PATH": "/usr/bin", "LANG": "C", "GONE": "x"}
	h.Programs.Answers = func(line string) (string, bool) {
		out := ""
		for name, value := range now {
			out += name + "=" + value + "\n"
		}
		return out, line == "systemctl show-environment"
	}
	h.Programs.Does = func(line string) error {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "systemctl" {
			return nil
		}
		for _, variable := range f[2:] {
			switch name, value, _ := strings.Cut(variable, "="); f[1] {
			case "set-environment":
				now[name] = value
			case "unset-environment":
				delete(now, name)
			}
		}
		return nil
	}
	put(t, h, "/sys/kernel/kexec_loaded", "0\n")
	baseline, err := h.Executor.Cleaner.Baseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := journal.State{Baseline: baseline}
	left := func() []string {
		found, err := h.Executor.Verify(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	now["LD_PRELOAD"], now["PATH"] = "/tmp/theirs.so", "/tmp"
	delete(now, "GONE")
	put(t, h, "/sys/kernel/kexec_loaded", "1\n")
	put(t, h, "/run/systemd/resolve/netif/2", "SERVERS=192.0.2.1\n")
	want := []string{
		"variable of all services LD_PRELOAD", "variable of all services PATH, which is not what it was before", "variable of all services GONE, which was there before, is gone",
		"kernel for the next boot (kexec)", "directory /run/systemd/resolve/netif",
	}
	if is := left(); !slices.Equal(is, want) {
		t.Errorf("left is %q, want %q", is, want)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: state}); err != nil {
		t.Error(err)
	}
	if is := left(); !slices.Equal(is, want[3:]) {
		t.Errorf("after the reset is left %q, want %q", is, want[3:])
	}
	if now["LD_PRELOAD"] != "" || now["PATH"] != "/usr/bin" || now["GONE"] != "x" {
		t.Errorf("the variables are %q", now)
	}
}

// TestServicesRunAgain: what starts with the machine and ran before runs after the reset, or is named, and what somebody started besides is stopped.
// What runs on demand is not compared, nor what has a condition that does not hold any more.
func TestServicesRunAgain(t *testing.T) {
	h := fakehost.New(t)
	files := map[string]string{
		"firewalld.service": "enabled", "apt-daily.timer": "enabled", "broken.service": "enabled", "kubelet.service": "enabled", "udisks2.service": "static", "new.service": "enabled",
		"first-boot.service": "enabled", "theirs.service": "disabled", "by-socket.service": "disabled", "by-hand.service": "disabled", "getty@tty2.service": "disabled", "containerd.service": "disabled",
	}
	running := map[string]bool{"firewalld.service": true, "apt-daily.timer": true, "broken.service": true, "kubelet.service": true, "udisks2.service": true, "first-boot.service": true, "by-hand.service": true}
	conditions := map[string]string{"first-boot.service": "no"}
	var started, stopped []string
	h.Programs.Answers = func(line string) (string, bool) {
		out := ""
		for unit, file := range files {
			is := "inactive"
			if running[unit] {
				is = "active"
			}
			// One that nobody has tried to start has a result without a time.
			result, at := cmp.Or(conditions[unit], "no"), "0"
			if running[unit] || conditions[unit] != "" {
				at = "7421033"
			}
			out += "Id=" + unit + "\nActiveState=" + is + "\nUnitFileState=" + file + "\nConditionResult=" + result + "\nConditionTimestampMonotonic=" + at + "\n"
			if unit == "by-socket.service" {
				out += "TriggeredBy=by-socket.socket\n"
			}
			out += "BusName=\n\n"
		}
		return out, strings.HasPrefix(line, "systemctl show --property=Id,")
	}
	h.Programs.Does = func(line string) error {
		if unit, starts := strings.CutPrefix(line, "systemctl start "); starts {
			if started = append(started, unit); unit == "broken.service" {
				return &command.ExitError{Program: "systemctl", Code: 1}
			}
			running[unit] = true
		}
		if unit, stops := strings.CutPrefix(line, "systemctl stop "); stops && running[unit] {
			stopped = append(stopped, unit)
			delete(running, unit)
		}
		return nil
	}
	baseline := recorded(t, h)
	clear(running)
	for _, unit := range []string{"new.service", "theirs.service", "by-socket.service", "getty@tty2.service", "containerd.service"} {
		running[unit] = true
	}
	p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
	if err := h.Executor.Cleaner.Reset(t.Context(), p); err == nil || !strings.Contains(err.Error(), "service") {
		t.Errorf("reset: %v", err)
	}
	slices.Sort(started)
	if want := []string{"apt-daily.timer", "broken.service", "firewalld.service"}; !slices.Equal(slices.Compact(started), want) {
		t.Errorf("started were %q, want %q", started, want)
	}
	if want := []string{"theirs.service"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped were %q, want %q", stopped, want)
	}
	if left, want := leftOf(t, h, baseline), []string{"running service broken.service, which was there before, is gone"}; !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
}
