package reset_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
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
