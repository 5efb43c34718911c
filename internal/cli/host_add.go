package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
)

// hostAddFlags say which machines become hosts, and how they are reached.
type hostAddFlags struct {
	managementFlags
	machineFlags
	agents          []string
	hostBundle      string
	publicKey       string
	version         string
	management      string
	labels          map[string]string
	failureDomain   string
	approve         bool
	ignorePreflight []string
	file            string
	dryRun          bool
	output          string
}

func hostAddCommand(p *Program) *cobra.Command {
	f := &hostAddFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "add [USER@]ADDRESS[:PORT]...",
		Short: "Make hosts of machines, over SSH",
		Long: `Make hosts of machines: log in over SSH, check whether the machine is fit, copy the
agent and, with --host-bundle, all the software of a node, enroll it with its own token,
and wait until it is available. A machine that is not fit stays unchanged, and is named
with what to do; the others continue. Finished steps of an earlier run are skipped, so
after an interruption the same command continues. The exit code is 1 when a machine
failed.

With -f the machines are those of a file, each with failureDomain and labels of its own, which go
before those of the flags:

  hosts:
  - address: root@192.0.2.11
    failureDomain: rack1
    labels: {role: control-plane}

Host keys come only from known_hosts files. User keys come from --identity-file, an SSH
agent (SSH_AUTH_SOCK) and ~/.ssh; ~/.ssh/config is not read. A user other than root
needs sudo without a password.`,
		Example: `  slipway host add root@192.0.2.11 root@192.0.2.12 --host-bundle ./hostbundle --public-key hostbundle.pub
  slipway host add admin@rack1-a --labels rack=1 --failure-domain rack1 --approve -n prod
  slipway host add -f hosts.yaml --host-bundle ./hostbundle --public-key hostbundle.pub --dry-run
  slipway host add 10.0.0.11 10.0.0.12 --jump admin@bastion -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error { return f.add(cmd, s, args) }),
	}
	f.bind(command)
	return command
}

func (f *hostAddFlags) bind(command *cobra.Command) {
	flags := command.Flags()
	f.machineFlags.bind(command, 15*time.Minute)
	flags.StringArrayVar(&f.agents, "agent", nil, "slipway-agent to bring, one for each architecture; those beside this program when empty")
	flags.StringVar(&f.hostBundle, "host-bundle", "", "directory with host bundles, whose software is installed; without one the machines have it already")
	flags.StringVar(&f.publicKey, "public-key", "", "file with the public keys of which one must have signed the host bundle")
	flags.StringVar(&f.version, "kubernetes-version", "", "version to install of the host bundles; the newest when empty")
	flags.StringVar(&f.management, "software-management", string(infrav1.HostSoftwareManaged), "who installs the Kubernetes versions that are asked of the hosts later: Managed for their agents, by the keys of --public-key, where --host-bundle is given; Provided for you")
	flags.StringToStringVar(&f.labels, "labels", nil, "labels of the hosts, as in rack=a,disk=ssd")
	flags.StringVar(&f.failureDomain, "failure-domain", "", "failure domain that the hosts stand in, such as a rack")
	flags.BoolVar(&f.approve, "approve", false, "approve the hosts, whatever the HostApprovalPolicy of the namespace asks for")
	flags.StringSliceVar(&f.ignorePreflight, "ignore-preflight-errors", nil, "checks of the agent's preflight whose errors do not count, or all")
	f.managementFlags.bind(command, "of the hosts")
	flags.StringVarP(&f.file, "file", "f", "", "YAML or JSON file with the machines")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would become of which machine, and ask none")
	_ = command.MarkFlagFilename("file", "yaml", "yml", "json")
	completeFlag(command, "software-management", softwareManagements)
	command.ValidArgsFunction = cobra.NoFileCompletions
	_ = command.MarkFlagDirname("host-bundle")
	_ = command.RegisterFlagCompletionFunc("failure-domain", f.complete(failureDomains))
	_ = command.RegisterFlagCompletionFunc("kubernetes-version", f.complete(versionNames))
	outputFlag(command, &f.output, listFormats...)
}

// softwareManagements are those that a host can have.
var softwareManagements = []string{string(infrav1.HostSoftwareManaged), string(infrav1.HostSoftwareProvided)}

func (f *hostAddFlags) add(cmd *cobra.Command, s *session, args []string) error {
	switch {
	case f.file == "" && len(args) == 0:
		return fmt.Errorf("[USER@]ADDRESS[:PORT]... is missing, or -f with a file of machines; see `%s --help`", cmd.CommandPath())
	case f.file != "" && len(args) > 0:
		return errors.New("--file has the machines: name none beside it")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	dialer, err := remote.New(f.login)
	if err != nil {
		return err
	}
	defer func() { _ = dialer.Close() }()
	addresses, err := addressesOf(args, dialer.User())
	if f.file != "" {
		addresses, o.Places, err = readHosts(f.file, dialer.User(), o.Place)
	}
	if err != nil {
		return err
	}
	if f.dryRun {
		return plannedHosts(s.namespace, addresses, &o).write(cmd.OutOrStdout(), f.output)
	}
	endpoint, err := s.cluster.Endpoint(cmd.Context(), s, s.namespace, f.server)
	if err != nil {
		return err
	}
	o.Client, o.Namespace, o.Server, o.CA, o.Dial = s, s.namespace, endpoint.Server, endpoint.CA, dialer.Dial
	lines := &progressLines{out: cmd.ErrOrStderr()}
	o.Report, o.Finished = lines.step, lines.finished
	results, err := provision.Add(cmd.Context(), o, addresses)
	if err != nil {
		return err
	}
	return errors.Join(machineResults(results).write(cmd.OutOrStdout(), f.output), failures(results))
}

// options reads what is brought to machines; nothing of it asks the network.
func (f *hostAddFlags) options() (provision.Options, error) {
	o := provision.Options{
		Unit: config.AgentUnit, Place: provision.Place{Labels: f.labels, FailureDomain: f.failureDomain}, Approve: f.approve,
		IgnorePreflight: f.ignorePreflight, Parallel: f.parallel, Timeout: f.timeout,
	}
	if err := f.validate(); err != nil {
		return o, err
	}
	switch {
	case (f.hostBundle == "") != (f.publicKey == ""):
		return o, errors.New("--host-bundle and --public-key go together: nothing unsigned is installed")
	case f.hostBundle == "" && f.version != "":
		return o, errors.New("--kubernetes-version: want --host-bundle, too")
	case !slices.Contains(softwareManagements, f.management):
		return o, fmt.Errorf("--software-management: %q is none: want one of %q", f.management, softwareManagements)
	}
	o.Provided = f.management == string(infrav1.HostSoftwareProvided)
	if errs := metav1validation.ValidateLabels(f.labels, field.NewPath("--labels")); len(errs) > 0 {
		return o, errs.ToAggregate()
	}
	var err error
	if o.Agents, err = openAgents(f.agents); err != nil {
		return o, err
	}
	if f.hostBundle != "" {
		o.Bundles, err = provision.OpenBundles(f.hostBundle, f.publicKey, f.version)
	}
	return o, err
}

// openAgents opens the agents that are named, or those beside this program.
func openAgents(named []string) ([]*provision.Agent, error) {
	if len(named) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		beside := filepath.Join(filepath.Dir(self), "slipway-agent")
		for _, path := range []string{beside, beside + "-linux-amd64", beside + "-linux-arm64"} {
			if _, err := os.Stat(path); err == nil {
				named = append(named, path)
			}
		}
		if len(named) == 0 {
			return nil, fmt.Errorf("--agent: there is no slipway-agent in %s: name the slipway-agent-linux-ARCHITECTURE of the release", filepath.Dir(self))
		}
	}
	var agents []*provision.Agent
	for _, path := range named {
		a, err := provision.OpenAgent(path)
		if err != nil {
			return nil, fmt.Errorf("--agent: %w", err)
		}
		if !slices.ContainsFunc(agents, func(other *provision.Agent) bool { return other.Architecture == a.Architecture }) {
			agents = append(agents, a)
		}
	}
	return agents, nil
}

// addressesOf are the machines that are named, each once.
func addressesOf(args []string, user string) ([]string, error) {
	var once []string
	var errs []error
	for _, arg := range args {
		address, err := remote.Normalize(arg, user)
		if err != nil {
			errs = append(errs, err)
		} else if !slices.Contains(once, address) {
			once = append(once, address)
		}
	}
	return once, errors.Join(errs...)
}

// plannedHosts are the machines with what they would become.
func plannedHosts(namespace string, addresses []string, o *provision.Options) result {
	type planned struct {
		Address       string            `json:"address"`
		Namespace     string            `json:"namespace"`
		FailureDomain string            `json:"failureDomain,omitempty"`
		Labels        map[string]string `json:"labels,omitempty"`
	}
	rows := []planned{}
	for _, a := range addresses {
		place := o.PlaceOf(a)
		rows = append(rows, planned{a, namespace, place.FailureDomain, place.Labels})
	}
	return result{object: rows, table: func(page *display.Page, _ bool) error {
		t := display.Table{Columns: display.Columns("ADDRESS", "NAMESPACE", "RACK", "LABELS")}
		for _, r := range rows {
			t.Rows = append(t.Rows, display.Row{Cells: display.Texts(r.Address, r.Namespace, r.FailureDomain, labels.FormatLabels(r.Labels))})
		}
		page.Table(t)
		return nil
	}}
}
