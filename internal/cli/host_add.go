package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
)

// hostAddFlags say which machines become hosts, and how they are reached.
type hostAddFlags struct {
	managementFlags
	login           remote.Options
	server          string
	agents          []string
	hostBundle      string
	publicKey       string
	version         string
	labels          map[string]string
	failureDomain   string
	approve         bool
	ignorePreflight []string
	parallel        int
	timeout         time.Duration
	output          string
}

func hostAddCommand(p *Program) *cobra.Command {
	f := &hostAddFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "add [USER@]ADDRESS[:PORT]...",
		Short: "Make hosts of machines, over SSH",
		Long: `Make hosts of machines: log in by SSH, look whether a machine is fit, bring the agent and,
with --host-bundle, all the software of a node, enroll it with a token of its own, and
wait until it is available. A machine that is not fit stays as it was, and is named with
what to do; the others go on. What an earlier run did is found and not done again, so
after an interruption the same command goes on. The exit code is 1 when a machine failed.

Machines are known by known_hosts files alone. Keys come from --identity-file, from an
SSH agent (SSH_AUTH_SOCK) and from ~/.ssh; ~/.ssh/config is not read. Who is not root
there needs sudo without a password.`,
		Example: `  slipway host add root@192.0.2.11 root@192.0.2.12 --host-bundle ./hostbundle --public-key hostbundle.pub
  slipway host add admin@rack1-a --labels rack=1 --failure-domain rack1 --approve -n prod
  slipway host add 10.0.0.11 10.0.0.12 --jump admin@bastion -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error { return f.add(cmd, s, args) }),
	}
	f.bind(command)
	return command
}

func (f *hostAddFlags) bind(command *cobra.Command) {
	f.managementFlags.bind(command, "of the hosts")
	flags := command.Flags()
	flags.StringArrayVarP(&f.login.IdentityFiles, "identity-file", "i", nil, "private key to log in with; may be given several times")
	flags.StringVar(&f.login.KnownHosts, "known-hosts", "", "file with the host keys of the machines; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts when empty")
	flags.StringVar(&f.login.Jump, "jump", "", "machine to log in through, as [USER@]ADDRESS[:PORT]")
	flags.StringVar(&f.server, "server", "", "address of the API server as the hosts see it; as local hosts do by default, or as the kubeconfig says")
	flags.StringArrayVar(&f.agents, "agent", nil, "slipway-agent to bring, one for each architecture; those beside this program when empty")
	flags.StringVar(&f.hostBundle, "host-bundle", "", "directory with host bundles, whose software is installed; without one the machines have it already")
	flags.StringVar(&f.publicKey, "public-key", "", "file with the public keys of which one must have signed the host bundle")
	flags.StringVar(&f.version, "kubernetes-version", "", "version to install of the host bundles; the newest when empty")
	flags.StringToStringVar(&f.labels, "labels", nil, "labels of the hosts, as in rack=a,disk=ssd")
	flags.StringVar(&f.failureDomain, "failure-domain", "", "failure domain that the hosts stand in, such as a rack")
	flags.BoolVar(&f.approve, "approve", false, "approve the hosts, whatever the HostApprovalPolicy of the namespace asks for")
	flags.StringSliceVar(&f.ignorePreflight, "ignore-preflight-errors", nil, "checks of the agent's preflight whose errors do not count, or all")
	flags.IntVar(&f.parallel, "parallel", 10, "how many machines are worked on at once")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Minute, "how long one machine may take")
	outputFlag(command, &f.output, listFormats...)
}

func (f *hostAddFlags) add(cmd *cobra.Command, s *session, args []string) error {
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
	if err != nil {
		return err
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
	return errors.Join(addedHosts(results).write(cmd.OutOrStdout(), f.output), failures(results))
}

// options reads what is brought to machines; nothing of it asks the network.
func (f *hostAddFlags) options() (provision.Options, error) {
	o := provision.Options{
		Unit: config.AgentUnit, Labels: f.labels, FailureDomain: f.failureDomain, Approve: f.approve,
		IgnorePreflight: f.ignorePreflight, Parallel: f.parallel, Timeout: f.timeout,
	}
	switch {
	case f.parallel < 1:
		return o, errors.New("--parallel: want at least 1")
	case f.timeout <= 0:
		return o, errors.New("--timeout: want a positive duration, for example 15m")
	case (f.hostBundle == "") != (f.publicKey == ""):
		return o, errors.New("--host-bundle and --public-key go together: nothing unsigned is installed")
	case f.hostBundle == "" && f.version != "":
		return o, errors.New("--kubernetes-version: want --host-bundle, too")
	}
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

// progressLines writes a line for each step of each machine.
type progressLines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *progressLines) step(e provision.Event) {
	if !e.Done || e.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %s: done in %.1fs\n", e.Address, e.Step, e.Took.Seconds())
}

func (l *progressLines) finished(r provision.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.State != provision.StateFailed {
		fmt.Fprintf(l.out, "%s  %s\n", r.Address, outcome(r))
		return
	}
	text := fmt.Sprintf("%s  %s: failed: %s\n", r.Address, r.Step, r.Message)
	if r.Remedy != "" {
		text += "    what to do: " + r.Remedy + "\n"
	}
	_, _ = escapes.WriteString(l.out, text)
}

func outcome(r provision.Result) string {
	switch r.State {
	case provision.StateSame:
		return r.Message
	case provision.StateUnchanged:
		return "host " + r.Name + " is available already"
	default:
		return fmt.Sprintf("host %s is available after %.1fs", r.Name, r.Seconds)
	}
}

func addedHosts(results []provision.Result) result {
	shown := result{object: results, table: func(out io.Writer, wide bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		header, format := "ADDRESS\tNAMESPACE\tNAME\tSTATE\tREASON", "%s\t%s\t%s\t%s\t%s"
		if wide {
			header += "\tMESSAGE\tREMEDY"
		}
		fmt.Fprintln(w, header)
		for _, r := range results {
			fmt.Fprintf(w, format, r.Address, r.Namespace, r.Name, r.State, r.Reason)
			if wide {
				fmt.Fprintf(w, "\t%s\t%s", r.Message, r.Remedy)
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	}}
	for _, r := range results {
		if r.State != provision.StateFailed && r.State != provision.StateSame {
			shown.names = append(shown.names, hostName(r.Name))
		}
	}
	return shown
}

// machinesError says how many machines failed; why each did has been said.
type machinesError struct {
	failed, all int
	errs        []error
}

func (e *machinesError) Error() string {
	return fmt.Sprintf("%d of %d machines failed; the same command goes on with them", e.failed, e.all)
}

// Unwrap returns what is wrong with each.
func (e *machinesError) Unwrap() []error { return e.errs }

func failures(results []provision.Result) error {
	e := &machinesError{all: len(results)}
	for _, r := range results {
		if r.State == provision.StateFailed {
			e.failed++
			e.errs = append(e.errs, r.Err)
		}
	}
	if e.failed == 0 {
		return nil
	}
	return e
}
