package reset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// environmentTrace is that of the variables that systemd gives to every service: LD_PRELOAD among them has all of them load a library.
func (c Cleaner) environmentTrace() trace {
	change := func(ctx context.Context, verb string, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}
		return c.tool(ctx, "systemctl", append([]string{verb}, arguments...)...)
	}
	return trace{
		kind: kindEnvironment, word: "variable of all services", gone: true, look: c.environment,
		remove: func(ctx context.Context, names []string) error { return change(ctx, "unset-environment", names) },
		restore: func(ctx context.Context, before entries) error {
			var all []string
			var errs []error
			for _, name := range slices.Sorted(keys(before)) {
				if strings.HasPrefix(before[name], "=$'") {
					errs = append(errs, fmt.Errorf("restore the variable %s of all services: its value is quoted", name))
					continue
				}
				all = append(all, name+before[name])
			}
			return errors.Join(append(errs, change(ctx, "set-environment", all))...)
		},
	}
}

func (c Cleaner) environment(ctx context.Context) (entries, error) {
	found := entries{}
	if !c.Runner.Has("systemctl") {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, err := c.Runner.Run(ctx, "systemctl", "show-environment")
	if errors.As(err, new(*command.ExitError)) {
		return found, nil // another program of this name, in a container
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = "=" + value
		}
	}
	return found, err
}

// kexecLoaded says whether a kernel is loaded that a reboot would start, past the firmware and the boot loader.
const kexecLoaded = "/sys/kernel/kexec_loaded"

// kexecTrace is that of the kernel that a reboot would start.
func (c Cleaner) kexecTrace() trace {
	return trace{
		kind: kindKexec, word: "kernel for the next boot", gone: true,
		look: func(context.Context) (entries, error) {
			if c.attribute(kexecLoaded) != "1" {
				return entries{}, nil
			}
			return entries{"(kexec)": "loaded"}, nil
		},
		remove: func(context.Context, []string) error {
			if c.Root != "" {
				return nil // that of a pretended host is not this machine's
			}
			const unload = 1 // KEXEC_FILE_UNLOAD
			if err := unix.KexecFileLoad(-1, -1, "", unload); err != nil {
				return fmt.Errorf("unload the kernel for the next boot: %w", err)
			}
			return nil
		},
	}
}
