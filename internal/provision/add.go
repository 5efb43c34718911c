package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Options say what machines are added to, and with what.
type Options struct {
	// Client of the management cluster, with the rights of the user.
	Client client.Client
	// Server is the https URL of its API server as machines see it, and CA, PEM, verifies it.
	Server string
	CA     []byte
	// Namespace of the Hosts.
	Namespace string
	// Agents, at most one for each architecture.
	Agents []*Agent
	// Unit is the content of the agent's unit.
	Unit []byte
	// Bundles bring the software of a node; nil where machines have it already.
	Bundles *Bundles
	// Labels and FailureDomain are put on the Hosts before anybody can claim them.
	Labels        map[string]string
	FailureDomain string
	// Approve approves the Hosts, which takes the verb approve.
	Approve bool
	// IgnorePreflight are names of checks whose errors do not count, or "all".
	IgnorePreflight []string
	// Dial connects to a machine, as root.
	Dial func(ctx context.Context, address string) (Machine, error)
	// Parallel bounds how many machines are worked on at once; at least 1.
	Parallel int
	// Timeout for each machine.
	Timeout time.Duration
	// Report is told of the steps, and Finished what became of a machine, by several
	// goroutines. May be nil.
	Report   func(Event)
	Finished func(Result)

	// now is the clock here; for tests.
	now func() time.Time
}

// Event is the begin or the end of a step.
type Event struct {
	Address string
	Step    Step
	// Done is false at the begin.
	Done bool
	// Err is why the step failed, at its end.
	Err error
	// Took is how long it was, at its end.
	Took time.Duration
}

// State is the outcome for a machine.
type State string

const (
	// StateAdded means that the machine is an available host now, or a claimed one.
	StateAdded State = "Added"
	// StateUnchanged means that it was before.
	StateUnchanged State = "Unchanged"
	// StateSame means that another address of the same command is this machine.
	StateSame State = "Same"
	// StateFailed means that a step failed.
	StateFailed State = "Failed"
)

// Result is what became of one machine; its fields are an API.
type Result struct {
	Address string `json:"address"`
	// Name of the Host; empty before it is known.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	State     State  `json:"state"`
	// Step that failed.
	Step    Step    `json:"step,omitempty"`
	Reason  Reason  `json:"reason,omitempty"`
	Message string  `json:"message,omitempty"`
	Remedy  string  `json:"remedy,omitempty"`
	Seconds float64 `json:"seconds"`
	// Err is why it failed; nil otherwise.
	Err error `json:"-"`
}

// Add makes hosts of machines, several at a time. A machine that fails holds up no other.
// The results are in the order of the addresses. After an error no machine was asked anything.
func Add(ctx context.Context, o Options, addresses []string) ([]Result, error) {
	if err := o.findNamespace(ctx); err != nil {
		return nil, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	run := &run{Options: o}
	results := make([]Result, len(addresses))
	var group errgroup.Group
	group.SetLimit(max(1, o.Parallel))
	for i, address := range addresses {
		group.Go(func() error {
			results[i] = run.add(ctx, address)
			if o.Finished != nil {
				o.Finished(results[i])
			}
			return nil
		})
	}
	_ = group.Wait() // a failure is a result
	return results, nil
}

// run is one command.
type run struct {
	Options
	mu sync.Mutex
	// machines that are at work or done.
	machines []taken
}

// taken is a machine and the address by which it was reached first.
type taken struct {
	address string
	facts   Facts
}

// errSame means that another address is the same machine.
var errSame = errors.New("same machine")

// first takes a machine for an address. It refuses one that another address took before,
// and one that cannot be told from another machine: by a copied machine-id, or by its name.
func (r *run) first(address string, f Facts) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.machines {
		sameID := f.MachineID == other.facts.MachineID
		switch {
		case sameID && f.BootID == other.facts.BootID && f.BootID != "" && f.HostName == other.facts.HostName:
			return fmt.Errorf("%w as %s", errSame, other.address)
		case sameID && f.MachineID != "":
			return problem(ReasonMachineIDTaken, "on one of them: rm -f /etc/machine-id /var/lib/dbus/machine-id && systemd-machine-id-setup && reboot",
				"its machine-id %s is that of %s, too, which is another machine: one is a copy of the other", f.MachineID, other.address)
		case f.hostName() == other.facts.hostName():
			return problem(ReasonNameTaken, "give one of them a name of its own with `hostnamectl set-hostname NAME`",
				"its name %s is that of %s, too, which is another machine", f.hostName(), other.address)
		}
	}
	r.machines = append(r.machines, taken{address, f})
	return nil
}

func (r *run) add(ctx context.Context, address string) Result {
	begin := r.now()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	a := &addition{run: r, result: Result{Address: address, Namespace: r.Namespace, State: StateUnchanged}}
	err := a.do(ctx)
	a.result.Seconds = r.now().Sub(begin).Round(100 * time.Millisecond).Seconds()
	switch {
	case errors.Is(err, errSame):
		a.result.State, a.result.Message = StateSame, err.Error()
	case err != nil:
		a.fail(outer, ctx, err)
	}
	return a.result
}

// addition is the work on one machine.
type addition struct {
	*run
	machine Machine
	facts   Facts
	want    *wanted
	result  Result
}

func (a *addition) do(ctx context.Context) error {
	defer func() {
		if a.machine != nil {
			_ = a.machine.Close()
		}
	}()
	for _, s := range []struct {
		name Step
		run  func(context.Context) error
	}{{StepConnect, a.connect}, {StepFacts, a.look}, {StepCheck, a.check}} {
		if err := a.step(ctx, s.name, s.run); err != nil {
			return err
		}
	}
	for _, s := range plan(a.facts, a.want) {
		if s.name != StepAvailable && s.name != StepHost {
			a.result.State = StateAdded
		}
		if err := a.step(ctx, s.name, func(ctx context.Context) error { return s.run(a, ctx) }); err != nil {
			return err
		}
	}
	// What could not be cleared is no fault of the host; the next run clears it.
	_ = a.clear(ctx)
	return nil
}

func (a *addition) step(ctx context.Context, name Step, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.result.Step = name
	a.report(Event{Step: name})
	begin := a.now()
	err := do(ctx)
	if errors.Is(err, errSame) {
		a.report(Event{Step: name, Done: true, Took: a.now().Sub(begin)})
		return err
	}
	a.report(Event{Step: name, Done: true, Err: err, Took: a.now().Sub(begin)})
	if err == nil {
		a.result.Step = ""
	}
	return err
}

func (a *addition) report(e Event) {
	if a.Report != nil {
		e.Address = a.result.Address
		a.Report(e)
	}
}

// fail makes one message and one remedy of an error.
func (a *addition) fail(outer, ctx context.Context, err error) {
	a.result.State, a.result.Err, a.result.Message = StateFailed, err, err.Error()
	var p *Problem
	var bundle *hostbundle.Error
	var exit *ExitError
	var file *fs.PathError
	switch {
	case outer.Err() != nil:
		a.result.Reason, a.result.Message, a.result.Remedy = ReasonInterrupted, "interrupted", "the same command goes on"
	case errors.As(err, &p):
		a.result.Reason, a.result.Remedy = p.Reason, p.Remedy
	case ctx.Err() != nil:
		a.result.Reason, a.result.Remedy = ReasonInterrupted, "the same command goes on; --timeout gives it longer"
		a.result.Message = fmt.Sprintf("not done after %s", a.Timeout)
		if a.result.Step == StepEnroll {
			a.result.Remedy += "; on the machine, `journalctl -u slipway-agent` tells what it waits for"
		}
	case errors.As(err, &bundle):
		a.result.Reason = Reason(bundle.Reason)
		if slices.Contains([]hostbundle.Reason{hostbundle.ReasonCorrupt, hostbundle.ReasonUnsigned, hostbundle.ReasonUntrusted}, bundle.Reason) {
			a.result.Remedy = "get the host bundle again, or the public key of whoever signed it"
		}
	case errors.As(err, &exit):
		a.result.Reason = ReasonCommandFailed
	case errors.As(err, &file):
		a.result.Reason, a.result.Remedy = ReasonLocalFile, "see to that file here; the same command goes on"
	default:
		a.result.Reason = ReasonManagementRejected
	}
}

func (a *addition) connect(ctx context.Context) (err error) {
	a.machine, err = a.Dial(ctx, a.result.Address)
	return err
}

// look gathers the facts, and sees that no two goroutines work on one machine.
func (a *addition) look(ctx context.Context) error {
	begin := a.now()
	printed, err := a.machine.Run(ctx, factsScript, nil)
	if err != nil {
		return err
	}
	if a.facts, err = parseFacts(printed); err != nil {
		return problem(ReasonUnsupportedSystem, "", "%s", err)
	}
	a.facts.Skew = skew(a.facts.Clock, begin, a.now())
	a.result.Name = a.facts.hostName()
	return a.first(a.result.Address, a.facts)
}

func (a *addition) check(ctx context.Context) error {
	var err error
	if a.want, err = a.choose(a.facts); err != nil {
		return err
	}
	found := check(a.facts, a.want)
	if len(found) == 0 {
		return a.compareHost(ctx)
	}
	all := *found[0]
	for _, p := range found[1:] {
		all.Message += "; " + p.Message
		all.Remedy += "; " + p.Remedy
	}
	return &all
}
