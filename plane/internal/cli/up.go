package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/clusterfile"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

// upFlags are what the user gives to `slipway up`.
type upFlags struct {
	config    instance.Config
	hosts     int
	file      string
	noCluster bool
}

func upCommand(g *global) *cobra.Command {
	f := &upFlags{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Bring up a plane, local hosts and a cluster on this machine",
		Long: `Bring up a plane, local hosts and a cluster on this machine, and wait until the
nodes are ready. It may be interrupted at any moment and run again: it goes on
where it was. Without -f it makes one cluster, "local", of one control plane and a
machine pool of two.`,
		Example: `  slipway up
  slipway up --hosts 6
  slipway up -f cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUp(cmd, g, f) },
	}
	flags := command.Flags()
	flags.IntVar(&f.hosts, "hosts", 0, "number of local hosts; as many as the cluster needs and one spare by default")
	flags.StringVarP(&f.file, "file", "f", "", "cluster file to apply instead of the default cluster; - reads standard input")
	flags.BoolVar(&f.noCluster, "no-cluster", false, "bring up the plane and the hosts only")
	flags.StringVar(&f.config.Name, "name", instance.DefaultName, "name of the plane's network namespace and cgroups; chosen when the plane is made")
	flags.IntVar(&f.config.APIPort, "api-port", instance.DefaultAPIPort, "port of the plane's API server on 127.0.0.1; chosen when the plane is made")
	flags.BoolVar(&f.config.Fast, "fast", false, "do without fsync, for throw-away planes; chosen when the plane is made")
	flags.StringVar(&f.config.Bundle, "bundle", defaultBundle(), "directory of the node bundle; $"+envBundle+" when set")
	command.MarkFlagsMutuallyExclusive("file", "no-cluster")
	_ = command.MarkFlagFilename("file", "yaml", "yml", "json")
	return command
}

func (f *upFlags) options() (up.Options, error) {
	o := up.Options{Hosts: f.hosts}
	if f.hosts < 0 {
		return o, fmt.Errorf("--hosts %d: want a number of hosts, or leave it out", f.hosts)
	}
	var err error
	switch {
	case f.noCluster:
	case f.file == "":
		o.KeepExisting = true
		o.File, err = up.DefaultFile()
	default:
		var data []byte
		if data, err = readFile(f.file); err == nil {
			o.File, err = clusterfile.Parse(f.file, data)
		}
	}
	return o, err
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func runUp(cmd *cobra.Command, g *global, f *upFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("local hosts need root, for namespaces and cgroups: run it with sudo")
	}
	inst, err := instance.Create(g.stateDir, f.config)
	if err != nil {
		return err
	}
	unlock, err := inst.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	hosts, err := manager(inst)
	if err != nil {
		return err
	}
	tree := progress.New(os.Stderr)
	session := &up.Session{Instance: inst, Hosts: hosts, Options: options, Progress: tree}
	err = session.Run(cmd.Context())
	tree.Close()
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; what runs keeps running: `slipway up` goes on, `slipway down` takes it down")
	}
	if err != nil {
		return err
	}
	return up.NextSteps(cmd.OutOrStdout(), session)
}
