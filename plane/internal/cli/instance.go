package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

// errNotRoot is for commands that make namespaces and cgroups.
var errNotRoot = errors.New("local hosts need root, for namespaces and cgroups: run the command with sudo")

// global are the flags every command has.
type global struct {
	stateDir string
	// services of the machine: a plane may be one.
	services service.Machine
}

func (g *global) open() (*instance.Instance, error) { return instance.Open(g.stateDir) }

// service is that of the plane; nil when it has none.
func (g *global) service() (*service.Service, error) {
	dir, err := filepath.Abs(g.stateDir)
	if err != nil {
		return nil, err
	}
	return g.services.Find(dir)
}

// command is how the user can call slipway on this plane from where they are.
func (g *global) command() string {
	command := "slipway"
	self, err := os.Executable()
	if found, lookErr := exec.LookPath(command); err == nil && (lookErr != nil || !sameFile(found, self)) {
		command = self
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, self); err == nil && len(rel) < len(self) {
				command = rel
			}
		}
	}
	// Where kubectl has a cluster, that is what slipway would use.
	if g.stateDir != cmp.Or(os.Getenv(envStateDir), instance.DefaultStateDir) || os.Getenv(envStateDir) == "" && management.KubeconfigGiven() {
		command += " --state-dir " + g.stateDir
	}
	return command
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// instanceFlags choose what a plane is, in `up` and `serve`.
type instanceFlags struct {
	config   instance.Config
	auditLog bool
	// restart says that the command starts a plane anew that runs as was chosen before.
	restart bool
	flags   *pflag.FlagSet
}

func (f *instanceFlags) bind(command *cobra.Command) {
	f.flags = command.Flags()
	f.flags.StringVar(&f.config.Name, "name", instance.DefaultName, "name of the plane's network namespace and cgroups; stays for the life of the plane")
	f.flags.IntVar(&f.config.APIPort, "api-port", instance.DefaultAPIPort, "port of the plane's API server on 127.0.0.1; remembered across restarts")
	f.flags.StringVar(&f.config.Listen, "listen", "", "address of this machine, ADDRESS[:PORT], at which hosts on other machines reach the plane's API server, by TLS alone; port 6443 by default. Empty for none; remembered across restarts")
	f.flags.StringVar(&f.config.TLSNames, "tls-san", "", "names and addresses, separated by commas, by which hosts on other machines reach the plane besides that of --listen; they are told the first. Remembered across restarts")
	f.flags.StringVar(&f.config.Beside, "beside", "", "name of another plane on this machine whose network this one joins, to move clusters there and back; this one has no local hosts then, and stays beside it for its life")
	f.flags.BoolVar(&f.config.Fast, "fast", false, "do without fsync, for throw-away planes; remembered across restarts")
	f.flags.BoolVar(&f.auditLog, "audit-log", true, "keep an audit log of who wrote what, in apiserver/audit.log of the state directory; remembered across restarts")
	f.flags.StringVar(&f.config.FeatureGates, "feature-gates", "", "feature gates of Cluster API, as in MachineTaintPropagation=false,PriorityQueue=true; remembered across restarts")
	f.flags.StringVar(&f.config.LoggingFormat, "logging-format", "text", "format of the plane's log: text, or json for one object a line; remembered across restarts")
	f.flags.StringVar(&f.config.Bundle, "bundle", cli.NodeBundle(), "directory of the node bundle (default: $"+envBundle+", else bundle beside this program)")
	f.flags.Lookup("bundle").DefValue = "" // the help of one machine is that of another
}

// change is what was given, as against what are defaults.
func (f *instanceFlags) change(inst *instance.Instance) instance.Change {
	c := instance.Change{Beside: f.config.Beside, Restart: f.restart}
	if f.flags.Changed("name") {
		c.Name = f.config.Name
	}
	if f.flags.Changed("api-port") {
		c.APIPort = f.config.APIPort
	}
	if f.flags.Changed("listen") {
		c.Listen = &f.config.Listen
	}
	if f.flags.Changed("tls-san") {
		c.TLSNames = &f.config.TLSNames
	}
	if f.flags.Changed("fast") {
		c.Fast = &f.config.Fast
	}
	if f.flags.Changed("feature-gates") {
		c.FeatureGates = &f.config.FeatureGates
	}
	if f.flags.Changed("logging-format") {
		c.LoggingFormat = f.config.LoggingFormat
	}
	if f.flags.Changed("audit-log") {
		c.AuditLog = &f.auditLog
	}
	// A bundle that has moved away is looked for beside the executable again.
	if _, err := os.Stat(filepath.Join(inst.Bundle, "bundle.json")); err != nil || f.flags.Changed("bundle") || os.Getenv(envBundle) != "" {
		c.Bundle = f.config.Bundle
	}
	return c
}

// acquire opens the plane that the flags ask for, making it if need be, and keeps
// other commands out.
func (f *instanceFlags) acquire(ctx context.Context, g *global) (*instance.Instance, *instance.Lock, error) {
	if err := capi.CheckFeatureGates(f.config.FeatureGates); err != nil {
		return nil, nil, err
	}
	if os.Geteuid() != 0 {
		return nil, nil, errNotRoot
	}
	if bundle, err := filepath.Abs(f.config.Bundle); err == nil {
		f.config.Bundle = bundle
	}
	f.config.NoAuditLog = !f.auditLog
	inst, err := instance.Create(g.stateDir, f.config)
	if err != nil {
		return nil, nil, err
	}
	lock, err := inst.Lock()
	if err != nil {
		return nil, nil, err
	}
	if err := f.applyChange(ctx, inst); err != nil {
		lock.Release()
		return nil, nil, err
	}
	return inst, lock, nil
}

// applyChange brings what was given to a plane that is there.
func (f *instanceFlags) applyChange(ctx context.Context, inst *instance.Instance) error {
	err := f.tryChange(ctx, inst)
	if err == nil {
		err = inst.Own()
	}
	if err != nil && inst.New {
		err = errors.Join(err, inst.Remove())
	}
	return err
}

// tryChange writes down what was chosen once this machine can do it.
func (f *instanceFlags) tryChange(ctx context.Context, inst *instance.Instance) error {
	_, running, err := statedir.Running(inst.Dir)
	if err != nil {
		return err
	}
	change := f.change(inst)
	next, err := inst.Next(change, running)
	if err != nil {
		return err
	}
	if change.Listen != nil || change.TLSNames != nil {
		if err := up.CheckListen(ctx, inst.Dir, next); err != nil {
			return err
		}
	}
	return inst.Apply(change, running)
}
