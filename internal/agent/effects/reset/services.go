package reset

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// readers are services by the files that they read when they start. What a reset puts back there
// would otherwise hold from the next boot on only.
var readers = []struct {
	prefix string
	units  []string
}{
	{"/etc/chrony", []string{"chrony", "chronyd"}},
	{"/etc/systemd/timesyncd.conf", []string{"systemd-timesyncd"}},
	{"/etc/systemd/resolved.conf", []string{"systemd-resolved"}},
	{"/etc/systemd/journald.conf", []string{"systemd-journald"}},
	{"/etc/ssh/sshd_config", []string{"ssh", "sshd"}},
	{"/etc/containerd/", []string{"containerd"}},
	{"/etc/docker/", []string{"docker"}},
	{"/etc/crio/", []string{"crio"}},
	{"/etc/rsyslog", []string{"rsyslog"}},
	{"/etc/audit/", []string{"auditd"}},
	{"/etc/systemd/logind.conf", []string{"systemd-logind"}},
	{"/run/systemd/shutdown", []string{"systemd-logind"}},
	{"/etc/systemd/network", []string{"systemd-networkd"}},
	{"/etc/NetworkManager/", []string{"NetworkManager"}},
	{"/etc/nsswitch.conf", []string{"nscd"}},
	{"/etc/sssd/", []string{"sssd"}},
	{"/etc/multipath", []string{"multipathd"}},
	{"/etc/iscsi/", []string{"iscsid"}},
	{"/etc/fail2ban/", []string{"fail2ban"}},
	{"/etc/dnsmasq", []string{"dnsmasq"}},
	{"/etc/unbound/", []string{"unbound"}},
	{"/etc/haproxy/", []string{"haproxy"}},
	{"/etc/keepalived/", []string{"keepalived"}},
	{"/etc/nginx/", []string{"nginx"}},
	{"/etc/firewalld/", []string{"firewalld"}},
	{"/etc/exports", []string{"nfs-server"}},
}

// restartReaders restarts those services that run and read one of the files, which were put back or went.
func (c Cleaner) restartReaders(ctx context.Context, files entries) {
	var units []string
	reload := false
	for _, name := range slices.Sorted(keys(files)) {
		for _, r := range readers {
			if strings.HasPrefix(name, r.prefix) {
				units = append(units, r.units...)
			}
		}
		reload = reload || strings.HasPrefix(name, "/etc/systemd/system.conf")
		if dir := unitsOf(name); dir != "" {
			reload = true
			unit, dropIn, _ := strings.Cut(strings.TrimPrefix(name, dir+"/"), ".d/")
			if dropIn != "" && !strings.HasPrefix(unit, "kubelet.") {
				units = append(units, unit)
			}
		}
	}
	if reload {
		c.reloadUnits(ctx)
	}
	c.remake(ctx, files)
	c.tryRestart(ctx, units)
}

// restartTold restarts the services that the bootstrap told something, such as time servers.
func (c Cleaner) restartTold(ctx context.Context, state journal.State) error {
	c.tryRestart(ctx, state.Restarted)
	return nil
}

// tryRestart ignores what is not installed, and what does not run. A service that does not start is
// the operator's to see: what it reads is what it was.
func (c Cleaner) tryRestart(ctx context.Context, units []string) {
	if !c.Runner.Has("systemctl") {
		return
	}
	slices.Sort(units)
	for _, unit := range slices.Compact(units) {
		c.systemctl(ctx, "try-restart", unit)
	}
}

func (c Cleaner) systemctl(ctx context.Context, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	if _, err := c.Runner.Run(ctx, "systemctl", args...); err != nil {
		c.Log.Info("systemctl", "args", args, "err", err)
	}
}

// serviceTrace is that of what starts with the machine and runs, and of what somebody started who did not have it start with the machine. One
// that a bootstrap disabled has its link back, but would not run before the next boot, and one that it enabled has lost its link, but would go on;
// one that was stopped or started alone has changed no file.
func (c Cleaner) serviceTrace() trace {
	return trace{
		kind: kindService, word: "running service", gone: true, look: c.services,
		own: func(ch change, _, _ entries) bool {
			return ch.before == "" && ch.now == runs || ch.before == started || slices.ContainsFunc(nodeServices, func(p string) bool { return strings.HasPrefix(ch.name, p) })
		},
		remove: func(ctx context.Context, names []string) error { return c.eachService(ctx, "stop", names) },
		restore: func(ctx context.Context, before entries) error {
			return c.eachService(ctx, "start", slices.Sorted(keys(before)))
		},
	}
}

func (c Cleaner) eachService(ctx context.Context, verb string, names []string) error {
	errs := make([]error, 0, len(names))
	for _, name := range names {
		errs = append(errs, c.tool(ctx, "systemctl", verb, name))
	}
	return errors.Join(errs...)
}

const (
	runs    = "runs"
	started = "started"
)

// nodeServices begin the names of the kubelet's service, which has a step of its own, and of the runtime that the proof asks for containers.
var nodeServices = []string{"kubelet.", "containerd."}

// onDemand are the properties of a service that others start: another unit, or a message.
var onDemand = []string{"TriggeredBy", "WantedBy", "RequiredBy", "BoundBy", "OnFailureOf", "OnSuccessOf", "BusName"}

func (c Cleaner) services(ctx context.Context) (entries, error) {
	found := entries{}
	if !c.Runner.Has("systemctl") {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	properties := append([]string{"Id", "ActiveState", "UnitFileState", "ConditionResult", "ConditionTimestampMonotonic"}, onDemand...)
	out, err := c.Runner.Run(ctx, "systemctl", "show", "--property="+strings.Join(properties, ","), "*.service", "*.socket", "*.timer", "*.path")
	if errors.As(err, new(*command.ExitError)) {
		return found, nil // another program of this name, in a container
	}
	for unit := range strings.SplitSeq(string(out), "\n\n") {
		is := map[string]string{}
		for line := range strings.Lines(unit) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			is[key] = value
		}
		// One whose conditions do not hold, as on all boots but the first, has nothing to do. It need not run.
		idle := is["ConditionResult"] == "no" && is["ConditionTimestampMonotonic"] != "0"
		active := is["ActiveState"] == "active"
		switch byItself := !slices.ContainsFunc(onDemand, func(p string) bool { return is[p] != "" }); {
		case (active || idle) && strings.HasPrefix(is["UnitFileState"], "enabled"):
			found[is["Id"]] = runs
		case active && byItself && is["UnitFileState"] == "disabled" && !strings.Contains(is["Id"], "@"): // a login starts an instance of a template
			found[is["Id"]] = started
		}
	}
	return found, err
}

const (
	unitDirectory = "/etc/systemd/system/"
	// transientUnits has those that systemd-run made.
	transientUnits = "/run/systemd/transient"
)

// unitDirectories are where systemd reads units, and drop-ins for them.
var unitDirectories = []string{
	strings.TrimSuffix(unitDirectory, "/"), transientUnits, "/run/systemd/system", "/run/systemd/system.control", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
}

// unitsOf is the directory of units that a path is below; empty for none.
func unitsOf(name string) string {
	for _, dir := range unitDirectories {
		if strings.HasPrefix(name, dir+"/") {
			return dir
		}
	}
	return ""
}

func isUnit(name string) bool { return strings.HasPrefix(name, unitDirectory) }

// stopUnit stops a unit whose file is about to go.
func (c Cleaner) stopUnit(ctx context.Context, name string) {
	if slices.Contains(unitDirectories, path.Dir(name)) && path.Ext(name) != "" && path.Ext(name) != ".wants" && path.Ext(name) != ".d" && c.Runner.Has("systemctl") {
		if present(c.Root.Path(name)) {
			c.systemctl(ctx, "stop", path.Base(name))
		}
	}
}

func (c Cleaner) reloadUnits(ctx context.Context) {
	if c.Runner.Has("systemctl") {
		c.systemctl(ctx, "daemon-reload")
	}
}
