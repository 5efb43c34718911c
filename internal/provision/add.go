package provision

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// Provided leaves the Kubernetes versions that are asked of the hosts later to their
	// operators. Otherwise the agents install them, where there are Bundles, by the keys of those.
	Provided bool
	// Place is put on the Hosts before anybody can claim them; Places are those of addresses that have another one.
	Place
	Places map[string]Place
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

// Place is what Hosts are selected by.
type Place struct {
	Labels        map[string]string
	FailureDomain string
}

// PlaceOf is the place of an address.
func (o *Options) PlaceOf(address string) Place {
	if place, ok := o.Places[address]; ok {
		return place
	}
	return o.Place
}

// Add makes hosts of machines, several at a time. A machine that fails holds up no other.
// The results are in the order of the addresses. After an error no machine was asked anything.
func Add(ctx context.Context, o Options, addresses []string) ([]Result, error) {
	if err := findNamespace(ctx, o.Client, o.Namespace); err != nil {
		return nil, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	run := &run{Options: o}
	return each(addresses, o.Parallel, o.Finished, func(address string) Result { return run.add(ctx, address) }), nil
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
	a := &addition{run: r, course: course{Report: r.Report, Timeout: r.Timeout, now: r.now,
		result: Result{Address: address, Namespace: r.Namespace, State: StateUnchanged}}}
	return a.follow(ctx, address, a.do)
}

// addition is the work on one machine.
type addition struct {
	*run
	machine Machine
	facts   Facts
	want    *wanted
	course
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
	if a.want, err = a.choose(a.result.Address, a.facts); err != nil {
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
