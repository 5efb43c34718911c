package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

// errServiceNotRoot is for commands that change the services of the machine.
var errServiceNotRoot = errors.New("services of the machine are root's: run the command with sudo")

// installFlags are what the user gives to `slipway install`.
type installFlags struct {
	instanceFlags
	hosts   int
	print   bool
	timeout time.Duration
}

func installCommand(g *global) *cobra.Command {
	f := &installFlags{}
	command := &cobra.Command{
		Use:   "install",
		Short: "Make the plane a service of this machine, which starts with it",
		Long: `Make the plane a service of systemd, slipway-plane-NAME.service: it starts with this
machine, and again whenever it ends. An existing plane keeps its data, and hosts and
their clusters continue; otherwise a new plane is created. The plane's local hosts are
switched on with it. Run it again to change settings, or after moving the program.

"slipway up" then creates local hosts and clusters, "slipway down" stops the plane until
the machine starts again, and "slipway uninstall" removes the service.`,
		Example: `  slipway install --listen 192.0.2.10
  slipway install --hosts 3
  slipway install --print`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInstall(cmd, g, f) },
	}
	flags := command.Flags()
	flags.IntVar(&f.hosts, "hosts", 0, "number of local hosts there shall be; those there are by default")
	flags.BoolVar(&f.print, "print", false, "print the unit instead, and change nothing")
	flags.DurationVar(&f.timeout, "timeout", upTimeout, "how long to wait until the plane is ready; 0 waits as long as it takes")
	f.bind(command)
	return command
}

func runInstall(cmd *cobra.Command, g *global, f *installFlags) error {
	if err := checkAmounts(f.hosts, f.timeout); err != nil {
		return err
	}
	if f.print {
		return f.printUnit(cmd, g)
	}
	if os.Geteuid() != 0 {
		return errServiceNotRoot
	}
	if err := g.services.Check(); err != nil {
		return err
	}
	if err := f.refuseForeground(g); err != nil {
		return err
	}
	f.restart = true
	inst, lock, err := f.acquire(cmd.Context(), g)
	if err != nil {
		return err
	}
	defer lock.Release()
	session, err := f.session(inst)
	if err == nil {
		session.Lock = lock
		session.Service, err = install(cmd, g, inst)
	}
	if err != nil && inst.New {
		return errors.Join(err, inst.Disown(), inst.Remove())
	}
	if err != nil {
		return err
	}
	err = runSession(cmd, g, session)
	if err != nil && inst.New && !session.Begun() {
		// The plane that it is for was not made.
		return errors.Join(err, session.Service.Remove(context.WithoutCancel(cmd.Context())))
	}
	return err
}

// printUnit shows the unit of the plane that is there, or that there would be.
func (f *installFlags) printUnit(cmd *cobra.Command, g *global) error {
	inst, err := g.open()
	if errors.Is(err, instance.ErrNone) {
		var dir string
		if dir, err = filepath.Abs(g.stateDir); err != nil {
			return err
		}
		inst, err = &instance.Instance{Dir: dir, Config: f.config}, f.config.Validate()
	}
	if err != nil {
		return err
	}
	unit, err := unitOf(inst)
	if err != nil {
		return err
	}
	text, err := unit.Render()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

// refuseForeground leaves a plane alone that somebody runs in the foreground: it would not
// give its directory up to the service.
func (f *installFlags) refuseForeground(g *global) error {
	dir, err := filepath.Abs(g.stateDir)
	if err != nil {
		return err
	}
	if record := statedir.Current(dir); record != nil && record.Foreground {
		return fmt.Errorf("the plane in %s runs in the foreground, process %d: stop it where it was started, then run this command again", dir, record.PID)
	}
	return nil
}

// session has the plane started by its service, and its local hosts switched on.
func (f *installFlags) session(inst *instance.Instance) (*up.Session, error) {
	hosts, err := manager(inst)
	if err != nil {
		return nil, err
	}
	if inst.Beside != "" && f.hosts > 0 {
		return nil, errors.New("--hosts: a plane beside another has no local hosts; leave it out")
	}
	options := up.Options{Hosts: f.hosts, NoHosts: f.hosts == 0, Timeout: f.timeout}
	if err := options.Complete(); err != nil {
		return nil, err
	}
	return &up.Session{Instance: inst, Hosts: hosts, Lifecycle: lifecycleBeside(hosts), Options: options}, nil
}

func install(cmd *cobra.Command, g *global, inst *instance.Instance) (*service.Service, error) {
	unit, err := unitOf(inst)
	if err != nil {
		return nil, err
	}
	if err := checkOwners(unit, inst.Bundle, g.services.Emptied); err != nil {
		return nil, err
	}
	installed, changed, err := g.services.Install(cmd.Context(), unit)
	if err != nil {
		return nil, err
	}
	said := installed.Name + " is installed as it is wanted."
	if changed {
		said = "Installed " + installed.Name + ": the plane starts with this machine."
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
	return installed, err
}

func unitOf(inst *instance.Instance) (service.Unit, error) {
	self, err := os.Executable()
	return service.Unit{Plane: inst.Name, Program: self, StateDir: inst.Dir, Beside: inst.Beside}, err
}

// checkOwners refuses to have systemd run as root, at each boot, what another user of the
// machine could put there.
func checkOwners(unit service.Unit, bundle string, emptied []string) error {
	const remedy = "systemd would run it as root at each boot. Copy the programs of slipway and the node bundle to where only root writes, such as /usr/local/lib/slipway, and run `slipway install` there"
	for _, program := range programs {
		if err := statedir.CheckReplaceable(filepath.Join(filepath.Dir(unit.Program), program), emptied...); err != nil {
			return fmt.Errorf("%w: %s", err, remedy)
		}
	}
	if err := statedir.CheckReplaceable(unit.Program, emptied...); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	if err := statedir.CheckAllReplaceable(bundle, emptied...); err != nil {
		return fmt.Errorf("--bundle: %w: %s", err, remedy)
	}
	if err := statedir.CheckReplaceable(unit.StateDir, emptied...); err != nil {
		return fmt.Errorf("--state-dir: %w: choose a directory where only root writes, such as %s", err, instance.DefaultStateDir)
	}
	return nil
}

func uninstallCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the plane and remove its service from this machine, but not its data",
		Long: `Stop the plane and remove its service: it no longer starts with this machine. Its data
stays, and hosts and their clusters continue. "slipway up" starts the plane in the
background, and "slipway install" makes it a service again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd, g) },
	}
}

func runUninstall(cmd *cobra.Command, g *global) error {
	if os.Geteuid() != 0 {
		return errServiceNotRoot
	}
	if err := g.services.Check(); err != nil {
		return err
	}
	installed, err := g.service()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if installed == nil {
		_, err := fmt.Fprintf(out, "Nothing to uninstall: the plane in %s is no service of this machine\n", g.stateDir)
		return err
	}
	inst, err := g.open()
	if err != nil && !errors.Is(err, instance.ErrNone) {
		return err
	}
	if err == nil {
		lock, err := inst.Lock()
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	if err := installed.Remove(cmd.Context()); err != nil {
		return fmt.Errorf("%w\nRun `%s uninstall` again: it goes on where it stopped", err, g.command())
	}
	fmt.Fprintf(out, "Removed %s; the plane is stopped.\n", installed.Name)
	if dir := installed.DropIns(); dir != "" {
		fmt.Fprintf(out, "%s stays: the changes in it are yours.\n", dir)
	}
	if inst == nil {
		return nil
	}
	_, err = fmt.Fprintf(out, "Its data stays in %s: `%[2]s up` starts it again, `%[2]s down --purge` removes all of it.\n", inst.Dir, g.command())
	return err
}
