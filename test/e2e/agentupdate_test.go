package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
)

// updated waits until the agent on the other machine is the one of the plane, since the plane
// has its bundle: the same process, another program, in the place of the former one.
func updated(t *testing.T, p *plane, l lan, run func(...string) string, pid int, program string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(p.bin, "slipway-agent"))
	if err != nil {
		t.Fatal(err)
	}
	version := live.Version(t, filepath.Join(p.bin, "slipway-agent"))
	kubeconfig := strings.TrimSpace(run("kubeconfig"))
	get := func(into any, args ...string) error {
		out, err := within(l.plane, exec.Command(filepath.Join(p.bin, "kubectl"), append([]string{"--kubeconfig", kubeconfig, "get", "-o", "json"}, args...)...)).Output()
		return errors.Join(err, json.Unmarshal(out, into))
	}
	var host infrav1.Host
	var release infrav1.AgentRelease
	begin := time.Now()
	poll.Until(t, "the agent is updated", func() error {
		// The Host is read after the release that counts it, and each into nothing: an agent on
		// trial has told its version already, and what is unset later is not in the JSON.
		host, release = infrav1.Host{}, infrav1.AgentRelease{}
		err := errors.Join(get(&release, "agentrelease", version), get(&host, "host", "other-1"))
		if err == nil && host.Status.Inventory.AgentVersion == version && release.Status.Updated != nil && *release.Status.Updated == 1 {
			t.Logf("updated after %.1fs", time.Since(begin).Seconds())
			return nil
		}
		return fmt.Errorf("the agent is %s, is asked for %+v, and tells %+v; the release %+v (%w)", host.Status.Inventory.AgentVersion, host.Spec.Agent, host.Status.AgentUpdate, release.Status, err)
	})
	if host.Status.Software.AgentManagement != infrav1.HostSoftwareManaged || host.Status.AgentUpdate != nil {
		t.Errorf("the Host tells %+v, %+v", host.Status.Software, host.Status.AgentUpdate)
	}
	if now, err := os.ReadFile(program); err != nil || string(now) != string(want) {
		t.Errorf("%s is not the program of the plane (%v)", program, err)
	}
	if runs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || runs != program {
		t.Errorf("the process runs %q (%v), want %s", runs, err, program)
	}
	if left, err := os.ReadDir(filepath.Dir(program)); err != nil || len(left) != 1 {
		t.Errorf("beside the program are %v (%v)", left, err)
	}
	run("bundle", "remove", hostbundle.AgentTag(version))
	if err := get(&release, "agentrelease", version); err == nil {
		t.Error("the AgentRelease is there after its bundle was removed")
	}
}
