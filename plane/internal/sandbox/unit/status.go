package unit

import (
	"fmt"
	"strings"
	"time"
)

// activeState is systemd's ActiveState.
func (r *record) activeState() string {
	switch r.phase {
	case active:
		return "active"
	case starting, backoff, waiting:
		return "activating"
	case stopping:
		return "deactivating"
	case inactive:
	}
	return "inactive"
}

// status is what `systemctl status` prints, without the log.
func (r *record) status() string {
	sub := map[phase]string{
		inactive: "dead", waiting: "waiting for " + r.unit.waitsFor(), starting: "start",
		active: "running", stopping: "stop-sigterm", backoff: "auto-restart",
	}[r.phase]
	enabled := "enabled"
	if !r.enabled {
		enabled = "disabled"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s.service - %s\n", r.unit.Name, r.unit.Description)
	fmt.Fprintf(&b, "     Loaded: loaded (%s.service; %s)\n", r.unit.Name, enabled)
	fmt.Fprintf(&b, "     Active: %s (%s) since %s", r.activeState(), sub, r.since.UTC().Format(time.RFC3339))
	if r.last != "" && !r.running() {
		fmt.Fprintf(&b, "\n    Process: %s", r.last)
	}
	if r.pid != 0 {
		fmt.Fprintf(&b, "\n   Main PID: %d", r.pid)
	}
	return b.String()
}

// waitsFor names what a unit may wait for.
func (u Unit) waitsFor() string {
	return strings.Join(append([]string{u.ConditionPath}, u.After...), " ")
}

// file renders the unit as a systemd unit file.
func (u Unit) file() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Unit]\nDescription=%s\n", u.Description)
	for _, a := range u.After {
		fmt.Fprintf(&b, "After=%s.service\n", a)
	}
	if u.ConditionPath != "" {
		fmt.Fprintf(&b, "ConditionPathExists=%s\n", u.ConditionPath)
	}
	b.WriteString("\n[Service]\n")
	for _, e := range u.Environment {
		fmt.Fprintf(&b, "Environment=%q\n", e)
	}
	for _, f := range u.EnvironmentFiles {
		fmt.Fprintf(&b, "EnvironmentFile=-%s\n", f)
	}
	killMode := "process"
	if u.KillGroup {
		killMode = "control-group"
	}
	fmt.Fprintf(&b, "ExecStart=%s\nRestart=always\nRestartSec=%s\nTimeoutStopSec=%s\nKillMode=%s\n",
		strings.Join(u.Argv, " "), u.restartDelay(), u.stopTimeout(), killMode)
	return b.String()
}
