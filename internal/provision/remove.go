package provision

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// RemoveOptions say how hosts become machines that nobody knows again.
type RemoveOptions struct {
	// Client of the management cluster, with the rights of the user.
	Client client.Client
	// Server is the https URL of its API server as machines see it.
	Server string
	// Namespace of the Hosts.
	Namespace string
	// Evacuate empties hosts that are claimed; without it they are refused.
	Evacuate bool
	// Detach leaves the machines as they are: nobody can log in there.
	Detach bool
	// Dial connects to a machine, as root.
	Dial func(ctx context.Context, address string) (Machine, error)
	// Parallel bounds how many hosts are worked on at once; at least 1.
	Parallel int
	// Timeout for each host.
	Timeout time.Duration
	// Report is told of the steps, and Finished what became of a host, by several
	// goroutines. May be nil.
	Report   func(Event)
	Finished func(Result)
}

// Departure is a host to remove, and where its machine is.
type Departure struct {
	// Name of the Host.
	Name string
	// Address of the machine, as [user@]address[:port]; the one that the Host tells when
	// empty.
	Address string
}

// Left is something of a host that is still on its machine.
type Left struct {
	Path string `json:"path"`
	// Why says whose it is, or what to do.
	Why string `json:"why"`
}

// Remove makes machines of hosts, several at a time. A host that fails holds up no other.
// The results are in the order of the departures. After an error nothing was asked of any.
func Remove(ctx context.Context, o RemoveOptions, departures []Departure) ([]Result, error) {
	if err := findNamespace(ctx, o.Client, o.Namespace); err != nil {
		return nil, err
	}
	return each(departures, o.Parallel, o.Finished, func(d Departure) Result {
		r := &removal{RemoveOptions: o, departure: d, course: course{Report: o.Report, Timeout: o.Timeout, now: time.Now,
			result: Result{Address: d.Address, Name: d.Name, Namespace: o.Namespace, State: StateRemoved}}}
		return r.follow(ctx, d.Name, r.do)
	}), nil
}

// removal is the work on one host.
type removal struct {
	RemoveOptions
	course
	departure Departure
	// host as it was found; nil when there is none.
	host    *infrav1.Host
	machine Machine
	facts   Facts
	// kept is what the agent could not take away.
	kept []Left
}

// The steps of removing, besides those of adding.
const (
	StepFind      Step = "find"
	StepCordon    Step = "cordon"
	StepEvacuate  Step = "evacuate"
	StepReset     Step = "reset"
	StepUninstall Step = "uninstall"
	StepProve     Step = "prove"
	StepForget    Step = "forget"
)

// removing are the steps in their order: nothing is changed before the machine is known to
// be that of the host, nothing is taken off it before it is nobody's node, and the Host goes
// last: whoever is interrupted finds by it what is still to be done.
var removing = []struct {
	name   Step
	needed func(*removal) bool
	run    func(*removal, context.Context) error
}{
	{StepFind, always, (*removal).find},
	{StepConnect, (*removal).reaches, (*removal).connect},
	{StepFacts, (*removal).reaches, (*removal).look},
	{StepCheck, (*removal).reaches, (*removal).check},
	{StepCordon, (*removal).known, (*removal).cordon},
	{StepEvacuate, (*removal).claimed, (*removal).evacuate},
	{StepReset, (*removal).known, (*removal).awaitClean},
	{StepUninstall, (*removal).hasAgent, (*removal).uninstall},
	{StepProve, (*removal).reaches, (*removal).prove},
	{StepForget, (*removal).known, (*removal).forget},
}

func always(*removal) bool { return true }

func (r *removal) reaches() bool { return !r.Detach }

func (r *removal) known() bool { return r.host != nil }

func (r *removal) claimed() bool { return r.known() && r.host.Spec.Claim != nil }

func (r *removal) do(ctx context.Context) error {
	defer func() {
		if r.machine != nil {
			_ = r.machine.Close()
		}
	}()
	for _, s := range removing {
		if !s.needed(r) {
			continue
		}
		if err := r.step(ctx, s.name, func(ctx context.Context) error { return s.run(r, ctx) }); err != nil {
			return err
		}
	}
	return r.conclude()
}

// conclude says what is left to do.
func (r *removal) conclude() error {
	switch {
	case r.Detach:
		r.result.State = StateDetached
		r.result.Message = "the Host is gone, and the machine is as it was"
		r.result.Remedy = "on the machine, as root: " + byHand
	case len(r.result.Left) > 0:
		message := "the Host is gone; on the machine are left:"
		for _, l := range r.result.Left {
			message += "\n    " + l.Path + ": " + l.Why
		}
		return &Problem{Reason: ReasonLeft, Message: message, Remedy: "look at them, and remove what nobody needs"}
	}
	return nil
}
