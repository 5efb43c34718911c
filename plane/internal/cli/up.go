package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

// upFlags are what the user gives to `slipway up`.
type upFlags struct {
	instanceFlags
	hosts     int
	file      string
	version   string
	noCluster bool
	// controlPlanes of the default cluster.
	controlPlanes int
	timeout       time.Duration
	// ui shows the plane in the browser until the command is interrupted.
	ui bool
	// forceConflicts takes back what others have changed.
	forceConflicts bool
}

// upTimeout is generous: the default cluster takes about a minute.
const upTimeout = 30 * time.Minute

func upCommand(g *global) *cobra.Command {
	f := &upFlags{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a plane, local hosts and a cluster on this machine",
		Long: `Start a plane, local hosts and a cluster on this machine, and wait until the nodes are
ready. After an interruption the same command continues. Without -f it creates one
cluster, "local", of one control plane and a machine pool of two. With three control
planes the cluster survives the loss of any host.`,
		Example: `  slipway up
  slipway up --hosts 6
  slipway up --control-planes 3
  slipway up --kubernetes-version v1.37.2
  slipway up -f cluster.yaml
  slipway up --no-cluster --hosts 0 --listen 192.0.2.10
  slipway up --state-dir /var/lib/other --name other --api-port 36444 --beside slipway`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUp(cmd, g, f) },
	}
	flags := command.Flags()
	flags.IntVar(&f.hosts, "hosts", 0, "number of local hosts; as many as the cluster needs and one spare by default. 0 adds none, for a plane of hosts on other machines: with --no-cluster")
	flags.StringVarP(&f.file, "file", "f", "", "cluster file to apply instead of the default cluster; - reads standard input")
	flags.StringVar(&f.version, "kubernetes-version", "", "Kubernetes version of the default cluster, one of the node bundle's; the plane's own by default")
	flags.BoolVar(&f.noCluster, "no-cluster", false, "bring up the plane and the hosts only")
	flags.IntVar(&f.controlPlanes, "control-planes", 1, "control planes of the default cluster: 1, 3 or 5")
	flags.BoolVar(&f.ui, "ui", false, "serve the console, as \"slipway ui\" does, from when the plane answers until interrupted; what was brought up stays")
	flags.DurationVar(&f.timeout, "timeout", upTimeout, "how long to wait until all is ready; 0 waits as long as it takes")
	flags.BoolVar(&f.forceConflicts, "force-conflicts", false, "apply objects also where others have changed them since; without it those are left as they are, and named")
	f.bind(command)
	command.MarkFlagsMutuallyExclusive("file", "no-cluster", "kubernetes-version")
	command.MarkFlagsMutuallyExclusive("file", "no-cluster", "control-planes")
	_ = command.MarkFlagFilename("file", "yaml", "yml", "json")
	return command
}

func (f *upFlags) options() (up.Options, error) {
	o := up.Options{Hosts: f.hosts, NoHosts: f.hosts == 0 && f.flags.Changed("hosts"), Version: f.version, Timeout: f.timeout, ForceConflicts: f.forceConflicts}
	if err := checkAmounts(f.hosts, f.timeout); err != nil {
		return o, err
	}
	if f.config.Beside != "" {
		return f.withoutHosts()
	}
	if !slices.Contains([]int{1, 3, 5}, f.controlPlanes) {
		return o, fmt.Errorf("--control-planes %d: want 1, 3 or 5, since etcd needs an odd number of members", f.controlPlanes)
	}
	var err error
	switch {
	case f.noCluster:
	case f.file == "":
		o.KeepExisting = true
		if o.File, err = up.DefaultFile(); err == nil {
			err = o.File.SetControlPlanes(f.controlPlanes)
		}
	default:
		var data []byte
		if data, err = readFile(f.file); err == nil {
			name := f.file
			if name == "-" {
				name = "standard input"
			}
			o.File, err = up.Parse(name, data)
		}
	}
	if err != nil {
		return o, err
	}
	return o, o.Complete()
}

// checkAmounts refuses values of --hosts and --timeout that are none.
func checkAmounts(hosts int, timeout time.Duration) error {
	if hosts < 0 {
		return fmt.Errorf("--hosts %d: want a number of hosts, or leave it out", hosts)
	}
	if timeout < 0 {
		return fmt.Errorf("--timeout %s: want how long to wait, such as 10m, or 0 for as long as it takes", timeout)
	}
	return nil
}

// withoutHosts are the options of a plane beside another.
func (f *upFlags) withoutHosts() (up.Options, error) {
	for _, name := range []string{"hosts", "file", "kubernetes-version", "control-planes"} {
		if f.flags.Changed(name) {
			return up.Options{}, fmt.Errorf("--%s: a plane beside another has no local hosts; leave it out", name)
		}
	}
	return up.Options{NoHosts: true, Timeout: f.timeout}, nil
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	return data, nil
}

func runUp(cmd *cobra.Command, g *global, f *upFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	f.restart = true
	inst, lock, err := f.acquire(cmd.Context(), g)
	if err != nil {
		return err
	}
	defer lock.Release()
	if inst.Beside != "" { // as was chosen by an earlier `up`
		if options, err = f.withoutHosts(); err != nil {
			return err
		}
	}
	hosts, err := manager(inst)
	if err != nil {
		return err
	}
	session := &up.Session{Instance: inst, Hosts: hosts, Lifecycle: lifecycleBeside(hosts), Lock: lock, Options: options}
	if session.Service, err = g.service(); err != nil {
		return err
	}
	if !f.ui {
		return runSession(cmd, g, session)
	}
	shown := &upConsole{global: g}
	session.Console = func() (string, error) { return shown.open(cmd.Context()) }
	if err := runSession(cmd, g, session); err != nil {
		return err
	}
	// Others may work on the plane while somebody looks at it.
	lock.Release()
	fmt.Fprintln(cmd.OutOrStdout(), "\nThe console is served until you press Ctrl-C, which ends nothing else.")
	return <-shown.ended
}

// runSession brings up what a session is for, and tells what to do next.
func runSession(cmd *cobra.Command, g *global, session *up.Session) error {
	inst := session.Instance
	session.Progress = progress.New(os.Stderr)
	err := session.Run(cmd.Context())
	session.Progress.Close()
	if err != nil && inst.New && !session.Begun() {
		// Nothing was made of what was chosen, so the next `up` may choose again.
		return errors.Join(err, inst.Disown(), inst.Remove())
	}
	if err != nil && cmd.Context().Err() != nil {
		return fmt.Errorf("interrupted; what runs keeps running: `%[1]s up` goes on, `%[1]s down` takes it down", g.command())
	}
	var timeout *up.TimeoutError
	if errors.As(err, &timeout) {
		return fmt.Errorf("%w; what runs keeps running: `%[2]s status --watch` shows how far it is, `%[2]s up` goes on waiting", err, g.command())
	}
	if err != nil {
		return err
	}
	return up.NextSteps(cmd.Context(), cmd.OutOrStdout(), session, g.command())
}
