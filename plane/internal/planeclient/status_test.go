package planeclient

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// A machine that has lost the address at which it listens is told from one that has it.
func TestOutsideStatus(t *testing.T) {
	for name, c := range map[string]struct {
		addresses []string
		message   string
	}{
		"here":   {[]string{"127.0.0.1:6443"}, ""},
		"all":    {[]string{"[::]:6443"}, ""},
		"gone":   {[]string{"127.0.0.1:6443", "192.0.2.1:6443"}, "has no address 192.0.2.1 any more"},
		"gone 6": {[]string{"[2001:db8::1]:6443"}, "has no address 2001:db8::1 any more"},
	} {
		plane := status.Plane{Ready: true}
		if err := outsideStatus(&plane, &statedir.Outside{Server: "https://plane.example:6443", Addresses: c.addresses}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if plane.HostServer != "https://plane.example:6443" || !strings.Contains(plane.HostServerMessage, c.message) || (c.message == "") != (plane.HostServerMessage == "") {
			t.Errorf("%s: %+v, want %q", name, plane, c.message)
		}
	}
	plane := status.Plane{}
	if err := outsideStatus(&plane, nil); err != nil || plane != (status.Plane{}) {
		t.Errorf("a plane that listens for nobody: %+v, %v", plane, err)
	}
}

// A plane whose supervisor was killed runs, and says that nobody starts it again.
func TestPlaneWithoutItsSupervisor(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	killed, err := process.IDOf(child.Process.Pid)
	if err := errors.Join(err, child.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	alive, err := process.IDOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		supervisor   *process.ID
		unsupervised bool
	}{
		"killed": {&killed, true}, "alive": {&alive, false}, "a plane of systemd": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			inst := &instance.Instance{Dir: t.TempDir()}
			lock, err := statedir.Take(inst.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lock.Release() }()
			holder, err := json.Marshal(statedir.Holder{Supervisor: c.supervisor})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lock.File().WriteAt(holder, 0); err != nil {
				t.Fatal(err)
			}
			if err := lock.SignAsPlane(); err != nil {
				t.Fatal(err)
			}
			if got, err := planeStatus(inst); err != nil || got.Unsupervised != c.unsupervised || got.PID != os.Getpid() {
				t.Errorf("%+v, %v, want unsupervised: %t", got, err, c.unsupervised)
			}
		})
	}
}
