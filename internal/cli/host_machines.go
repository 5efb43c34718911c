package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
)

// machineFlags are those of commands that log in on machines.
type machineFlags struct {
	login    remote.Options
	server   string
	parallel int
	timeout  time.Duration
}

func (f *machineFlags) bind(command *cobra.Command, timeout time.Duration) {
	flags := command.Flags()
	flags.StringArrayVarP(&f.login.IdentityFiles, "identity-file", "i", nil, "private key to log in with; may be given several times")
	flags.StringVar(&f.login.KnownHosts, "known-hosts", "", "file with the host keys of the machines; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts when empty")
	flags.StringVar(&f.login.Jump, "jump", "", "machine to log in through, as [USER@]ADDRESS[:PORT]")
	flags.StringVar(&f.server, "server", "", "address of the API server as the hosts see it; by default as a plane listens for other machines, as its local hosts see it, or as the kubeconfig says")
	flags.IntVar(&f.parallel, "parallel", 10, "how many machines are worked on at once")
	flags.DurationVar(&f.timeout, "timeout", timeout, "how long one machine may take")
}

func (f *machineFlags) validate() error {
	switch {
	case f.parallel < 1:
		return errors.New("--parallel: want at least 1")
	case f.timeout <= 0:
		return errors.New("--timeout: want a positive duration, for example 15m")
	}
	return nil
}

// progressLines writes a line for each step of each machine.
type progressLines struct {
	mu  sync.Mutex
	out io.Writer
	// byName says that machines are known by the name of their Host.
	byName bool
}

func (l *progressLines) step(e provision.Event) {
	if !e.Done || e.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %s: done in %.1fs\n", e.Subject, e.Step, e.Took.Seconds())
}

func (l *progressLines) finished(r provision.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	subject := r.Address
	if l.byName {
		subject = r.Name
	}
	text := fmt.Sprintf("%s  %s\n", subject, outcome(r))
	if r.State == provision.StateFailed {
		text = fmt.Sprintf("%s  %s: failed: %s\n", subject, r.Step, r.Message)
	}
	if r.Remedy != "" {
		text += "    what to do: " + r.Remedy + "\n"
	}
	_ = display.WriteVisible(l.out, text)
}

func outcome(r provision.Result) string {
	switch r.State {
	case provision.StateSame:
		return r.Message
	case provision.StateRemoved:
		return fmt.Sprintf("host %s is removed after %.1fs: nothing is left on its machine", r.Name, r.Seconds)
	case provision.StateDetached:
		return r.Message
	case provision.StateUnchanged:
		return "host " + r.Name + " is available already"
	default:
		return fmt.Sprintf("host %s is available after %.1fs", r.Name, r.Seconds)
	}
}

// machineResults shows what became of each machine. Its names are those of the hosts that
// are there, or were.
func machineResults(results []provision.Result) result {
	shown := result{object: results, table: func(out *display.Page, wide bool) error {
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
