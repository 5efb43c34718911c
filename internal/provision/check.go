package provision

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

const (
	// clockSkew is what `slipway-agent preflight` bears, too: half of what Kubernetes bears
	// between who issues a token and who verifies it.
	clockSkew = 30 * time.Second
	// spare stays free on the disks of a machine, in bytes, as the agent's install leaves it.
	spare = 256 << 20
)

// check returns why a machine cannot be added, worst first; nothing of the machine was
// changed then.
func check(f Facts, w *wanted) []*Problem {
	if f.Kernel != "Linux" {
		return []*Problem{problem(ReasonUnsupportedSystem, "add a Linux machine that was booted with systemd", "it runs %s", f.Kernel)}
	}
	var found []*Problem
	add := func(p *Problem) {
		if p != nil {
			found = append(found, p)
		}
	}
	add(checkSystemd(f))
	add(checkArchitecture(f, w))
	add(checkName(f))
	add(checkEnrollment(f, w))
	add(checkClock(f))
	if w.bundle != nil && len(f.Software) == 0 && len(f.Runtimes) > 0 {
		add(problem(ReasonForeignRuntime,
			"if nobody needs it: systemctl disable --now "+strings.Join(known(f.Runtimes), " ")+"; otherwise prepare the software of the machine by yourself and leave out --host-bundle",
			"it has a container runtime that is not Slipway's, which runs or starts at boot: %s", strings.Join(f.Runtimes, ", ")))
	}
	if len(found) == 0 {
		add(checkSpace(f, w))
	}
	return found
}

// runtimes are the units that the facts tell of.
var runtimes = []string{"containerd", "docker", "crio", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker"}

// known are the units of a machine that are among runtimes: a remedy is a command for an
// administrator, so nothing in it is what a machine printed.
func known(units []string) []string {
	found := slices.DeleteFunc(slices.Clone(runtimes), func(unit string) bool { return !slices.Contains(units, unit) })
	if len(found) == 0 {
		return []string{"UNIT"}
	}
	return found
}

func checkSystemd(f Facts) *Problem {
	if f.Systemd {
		return nil
	}
	return problem(ReasonNoSystemd, "boot it with systemd: the agent, the container runtime and the kubelet are its units", "%s was not booted with systemd", system(f))
}

func system(f Facts) string {
	if f.System == "" {
		return "it"
	}
	return f.System
}

func checkArchitecture(f Facts, w *wanted) *Problem {
	if w.agent != nil {
		return nil
	}
	return problem(ReasonArchitecture, "name the slipway-agent of the release for its architecture with --agent, beside the others",
		"it is %s, and there is no agent for that: --agent has %s", f.architecture(), strings.Join(w.architectures, ", "))
}

func checkName(f Facts) *Problem {
	if config.ValidateHostName(f.hostName()) == nil && !slices.Contains([]string{"localhost", "localhost.localdomain"}, f.hostName()) {
		return nil
	}
	return problem(ReasonHostName, "hostnamectl set-hostname NAME", "its name is %q: a Host, and its Node, want a lower-case DNS name of at most 63 characters of its own", f.hostName())
}

func checkEnrollment(f Facts, w *wanted) *Problem {
	const (
		remedy  = "hand it over from there (docs/clusterctl.md), or delete its Host there and remove " + stateDir + " and /etc/slipway/agent.yaml"
		another = "if that is another address of this management cluster, give it with --server; otherwise "
	)
	switch {
	case f.Server != "" && f.Server != w.server:
		return problem(ReasonEnrolledElsewhere, another+remedy, "it is enrolled at %s", f.Server)
	case f.Namespace != "" && f.Namespace != w.namespace:
		return problem(ReasonEnrolledElsewhere, remedy, "its agent is configured for namespace %s, not %s", f.Namespace, w.namespace)
	}
	return nil
}

func checkClock(f Facts) *Problem {
	if f.Skew.Abs() <= clockSkew {
		return nil
	}
	direction := "ahead of"
	if f.Skew < 0 {
		direction = "behind"
	}
	return problem(ReasonClockSkewed, "timedatectl set-ntp true, if the clock here is right", "its clock is %s %s the one of this machine", f.Skew.Abs().Round(time.Second), direction)
}

const makeRoom = "make room there, for instance with `journalctl --vacuum-size=100M` or a larger disk"

// checkSpace counts what is brought and what it becomes.
func checkSpace(f Facts, w *wanted) *Problem {
	brought, unpacked := w.agent.size, int64(0)
	if w.bundle != nil && !w.bundle.installed(f) {
		brought += w.bundle.size
		unpacked = w.bundle.unpacked
	}
	brought = max(0, brought-f.Staged)
	state, components := brought+spare, unpacked+spare
	if f.OneDisk {
		state += unpacked
		components = state
	}
	for _, disk := range []struct {
		path       string
		free, want int64
	}{{"/var/lib", f.StateFree, state}, {componentsDir, f.ComponentsFree, components}} {
		if disk.free < disk.want {
			return problem(ReasonNoSpace, makeRoom,
				"%d MiB are free below %s, and %d are wanted", disk.free>>20, disk.path, disk.want>>20)
		}
	}
	return nil
}
