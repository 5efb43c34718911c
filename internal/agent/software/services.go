package software

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Services brings installed software to life, on the host that this process runs on.
type Services struct {
	Runner command.Runner
	// Tell is told each command that is about to run: the import of images takes a while.
	// May be nil.
	Tell func(command string)

	// mounts is another table than that of this process; for tests.
	mounts string
}

// Start loads modules, applies settings of the kernel and starts units. All of that each
// boot does, too.
func (s Services) Start(ctx context.Context, c hostbundle.Contents) error {
	commands := [][]string{{"systemctl", "daemon-reload"}}
	if len(c.Modules) > 0 {
		commands = append(commands, append([]string{"modprobe", "--all"}, c.Modules...))
	}
	for _, f := range c.Files {
		if strings.HasPrefix(f.Path, "/etc/sysctl.d/") {
			commands = append(commands, []string{"sysctl", "--quiet", "--load=" + f.Path})
		}
	}
	for _, unit := range c.Units {
		commands = append(commands, []string{"systemctl", "start", unit})
	}
	return s.run(ctx, commands)
}

// Stop ends units, the last one first. While containers run it refuses, and stops nothing:
// they can be ended only as long as their runtime runs.
func (s Services) Stop(ctx context.Context, units []string) error {
	if err := checkMounts(cmp.Or(s.mounts, "/proc/self/mounts")); err != nil {
		return err
	}
	var commands [][]string
	for _, unit := range slices.Backward(units) {
		commands = append(commands, []string{"systemctl", "stop", unit})
	}
	return s.run(ctx, commands)
}

// Forget has systemd notice that units are gone.
func (s Services) Forget(ctx context.Context) error {
	return s.run(ctx, [][]string{{"systemctl", "daemon-reload"}})
}

func (s Services) run(ctx context.Context, commands [][]string) error {
	for _, c := range commands {
		if s.Tell != nil {
			s.Tell(strings.Join(c, " "))
		}
		if _, err := s.Runner.Run(ctx, c[0], c[1:]...); err != nil {
			return fmt.Errorf("%s: %w; the files are in place: see `journalctl -xe`, then run the same command again", strings.Join(c, " "), err)
		}
	}
	return nil
}

// checkMounts refuses to remove what containers have mounted.
func checkMounts(table string) error {
	data, err := os.ReadFile(table)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && (below(fields[1], hostbundle.StateDirectory) || below(fields[1], "/run/slipway")) {
			return refuse(ReasonInUse, "%s is mounted: containers still run on this host, or left that; reboot it, then run the same command again", fields[1])
		}
	}
	return nil
}
