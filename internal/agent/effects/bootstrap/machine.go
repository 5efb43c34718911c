package bootstrap

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
)

// hostname sets the name as cloud-init does: the given one, or else the first
// label of the FQDN. Without either the host keeps its own.
func (a Applier) hostname(h cloudconfig.Hostname, progress operation.Progress) error {
	name := h.Name
	if name == "" {
		name, _, _ = strings.Cut(h.FQDN, ".")
	}
	if name == "" {
		return nil
	}
	if err := a.recordHostname(name, progress); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	err := a.writeFile(cloudconfig.File{Path: "/etc/hostname", Content: []byte(name + "\n"), Mode: 0o644})
	if err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := a.SetHostname(name); err != nil {
		return fmt.Errorf("hostname: set it to %q: %w", name, err)
	}
	return nil
}

// recordHostname records the name that the host has, in the file and in the running system.
func (a Applier) recordHostname(name string, progress operation.Progress) error {
	if err := a.keep([]string{"/etc/hostname"}, progress); err != nil {
		return err
	}
	before, err := a.Hostname()
	if err != nil || progress.State().Hostname != nil {
		return err
	}
	return progress.Update(func(s *journal.State) { s.Hostname = &journal.Renamed{Before: before, After: name} })
}

// The files of the time clients that the agent knows how to configure.
const (
	chronySources    = "/etc/chrony/sources.d"
	chronyConfig     = "/etc/chrony.conf"
	timesyncdProgram = "/usr/lib/systemd/systemd-timesyncd"
	timesyncdConfig  = "/etc/systemd/timesyncd.conf.d/slipway.conf"
)

// ntp writes the servers where the installed time client reads them.
func (a Applier) ntp(ctx context.Context, n cloudconfig.NTP, progress operation.Progress) error {
	file, unit, err := a.timeClient(n)
	if err != nil || len(n.Servers)+len(n.Pools) == 0 {
		return err
	}
	if err := a.keep([]string{file.Path}, progress); err != nil {
		return err
	}
	if err := progress.Update(func(s *journal.State) {
		if !slices.Contains(s.Restarted, unit) {
			s.Restarted = append(s.Restarted, unit)
		}
	}); err != nil {
		return err
	}
	if err := a.writeFile(file); err != nil {
		return fmt.Errorf("ntp: %w", err)
	}
	if _, err := a.Runner.Run(ctx, "systemctl", "restart", unit); err != nil {
		return fmt.Errorf("ntp: restart %s: %w", unit, err)
	}
	return nil
}

// timeClient picks the installed client and returns its file and unit.
func (a Applier) timeClient(n cloudconfig.NTP) (cloudconfig.File, string, error) {
	file := cloudconfig.File{Mode: 0o644}
	switch {
	case a.Runner.Has("chronyd") && a.exists(chronySources):
		file.Path = chronySources + "/slipway.sources"
		file.Content = []byte(chronyLines(n))
		return file, "chrony", nil
	case a.Runner.Has("chronyd") && a.exists(chronyConfig):
		old, err := a.Root.ReadFile(chronyConfig)
		own := chronyBlock.ReplaceAllString(string(old), "")
		if own != "" && !strings.HasSuffix(own, "\n") {
			own += "\n" // the block is found again by its first line
		}
		file.Path = chronyConfig
		file.Content = []byte(own + "# slipway-agent: begin\n" + chronyLines(n) + "# slipway-agent: end\n")
		return file, "chronyd", err
	case a.exists(timesyncdProgram):
		file.Path = timesyncdConfig
		servers := append(append([]string{}, n.Servers...), n.Pools...)
		file.Content = []byte("[Time]\nNTP=" + strings.Join(servers, " ") + "\n")
		return file, "systemd-timesyncd", nil
	}
	return file, "", &operation.Error{Reason: operation.ReasonNTPClientMissing, Retry: operation.RetryNever,
		Message: "the bootstrap data configures ntp, but the host has neither chrony nor systemd-timesyncd; install one of them or remove ntp from the KubeadmConfig"}
}

var chronyBlock = regexp.MustCompile(`(?ms)^# slipway-agent: begin\n.*?^# slipway-agent: end\n`)

func chronyLines(n cloudconfig.NTP) string {
	var b strings.Builder
	for _, s := range n.Servers {
		fmt.Fprintf(&b, "server %s iburst\n", s)
	}
	for _, p := range n.Pools {
		fmt.Fprintf(&b, "pool %s iburst\n", p)
	}
	return b.String()
}

func (a Applier) exists(path string) bool {
	_, err := os.Stat(a.Root.Path(path))
	return err == nil
}
