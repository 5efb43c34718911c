package software

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// recorder keeps the commands and fails those that contain a word.
type recorder struct {
	command.Runner
	fail string
	ran  []string
}

func (r *recorder) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	r.ran = append(r.ran, line)
	if r.fail != "" && strings.Contains(line, r.fail) {
		return nil, &command.ExitError{Program: name, Code: 1}
	}
	return nil, nil
}

// Settings of bridges exist once their module is loaded, and pods need both.
func TestServicesStartAfterTheKernelIsReady(t *testing.T) {
	c := hostbundle.Contents{
		Modules: []string{"overlay", "br_netfilter"}, Units: []string{"a.service", "b.service"},
		Files: []hostbundle.HostFile{{Path: "/etc/slipway/containerd.toml"}, {Path: "/etc/sysctl.d/90-slipway.conf"}},
	}
	r := &recorder{}
	var told []string
	if err := (Services{Runner: r, Tell: func(c string) { told = append(told, c) }}).Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := []string{"systemctl daemon-reload", "modprobe --all overlay br_netfilter", "sysctl --quiet --load=/etc/sysctl.d/90-slipway.conf",
		"systemctl start a.service", "systemctl start b.service"}
	if !slices.Equal(r.ran, want) {
		t.Errorf("ran %q, want %q", r.ran, want)
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	r = &recorder{fail: "modprobe"}
	var exit *command.ExitError
	if err := (Services{Runner: r}).Start(t.Context(), c); !errors.As(err, &exit) || len(r.ran) != 2 {
		t.Errorf("went on after a failure: %q, %v", r.ran, err)
	}
}

func TestServicesStopTheLastFirst(t *testing.T) {
	r := &recorder{}
	none := filepath.Join(t.TempDir(), "mounts")
	if err := os.WriteFile(none, []byte("proc /proc proc rw 0 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Services{Runner: r, mounts: none}).Stop(t.Context(), []string{"a.service", "b.service"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"systemctl stop b.service", "systemctl stop a.service"}; !slices.Equal(r.ran, want) {
		t.Errorf("ran %q, want %q", r.ran, want)
	}
}

func TestMountsOfContainersAreSeen(t *testing.T) {
	for line, want := range map[string]Reason{
		"overlay /run/slipway/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs overlay rw 0 0": ReasonInUse,
		"tmpfs /var/lib/slipway/containerd/tmpmounts tmpfs rw 0 0":                                     ReasonInUse,
		"/dev/vdb /var/lib/slipway-agent ext4 rw 0 0":                                                  "",
		"overlay /run/containerd/x/rootfs overlay rw 0 0":                                              "",
	} {
		table := filepath.Join(t.TempDir(), "mounts")
		if err := os.WriteFile(table, []byte("proc /proc proc rw 0 0\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		if err := (Services{Runner: r, mounts: table}).Stop(t.Context(), []string{"a.service"}); reason(err) != want || (len(r.ran) > 0) != (want == "") {
			t.Errorf("%s: want %q, got %v; ran %q", line, want, err, r.ran)
		}
	}
}
