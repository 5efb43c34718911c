package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// AssignOptions say where hosts go.
type AssignOptions struct {
	// Client of the management cluster, with the rights of the user. It takes the verbs get,
	// patch, delete and order on hosts in the one namespace; get, create and order in the other.
	Client client.Client
	// From is the namespace of the Hosts, To the one that they go to.
	From, To string
	// Timeout is how long all of them are waited for.
	Timeout time.Duration
	// Report is told what a host waits for when that changes. May be nil.
	Report func(name, waiting string)
}

// AssignState says what became of a host that is in the other namespace now.
type AssignState string

const (
	// StateAssigned is a host that went there.
	StateAssigned AssignState = "Assigned"
	// StateUnchanged is a host that was there already.
	StateUnchanged AssignState = "Unchanged"
)

// Assigned is a host that is in the other namespace now.
type Assigned struct {
	// Namespace that the Host is in.
	Namespace string `json:"namespace"`
	// Name of the Host.
	Name string `json:"name"`
	// State says what became of it.
	State AssignState `json:"state"`
}

// Assign takes free hosts to another namespace of the management cluster, each for itself: it writes
// spec.assignedNamespace of the Host here, makes the one there, waits until the agent has gone over,
// and deletes this one. Nothing is remembered between two runs: what is done is seen on the two Hosts,
// so the same call goes on where an earlier one ended. The results are those that are
// there, in the order of the names, and the error joins what is wrong with the others. A host
// that does not get there in time stays assigned, and the next call goes on with it.
func Assign(ctx context.Context, o AssignOptions, names []string) ([]Assigned, error) {
	if err := o.validate(ctx); err != nil {
		return nil, err
	}
	var all []*assignment
	for _, name := range names {
		if slices.ContainsFunc(all, func(a *assignment) bool { return a.name == name }) {
			continue
		}
		a := &assignment{AssignOptions: o, name: name}
		a.err = a.place(ctx)
		all = append(all, a)
	}
	follow(ctx, o.Timeout, all)
	var results []Assigned
	var errs []error
	for _, a := range all {
		if a.err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", a.name, a.err))
			continue
		}
		results = append(results, Assigned{Namespace: o.To, Name: a.name, State: a.state})
	}
	return results, errors.Join(errs...)
}

// validate refuses a namespace that is not there. Who may not look is not refused.
func (o AssignOptions) validate(ctx context.Context) error {
	if o.From == o.To {
		return fmt.Errorf("namespace %s is the one that the hosts are in: name another one to assign them to", o.To)
	}
	err := o.Client.Get(ctx, client.ObjectKey{Name: o.To}, &corev1.Namespace{})
	switch {
	case apierrors.IsNotFound(err):
		return noNamespace(o.To)
	case apierrors.IsForbidden(err):
		return nil
	}
	return err
}

func noNamespace(name string) error {
	return fmt.Errorf("namespace %q is not there: kubectl create namespace %s", name, name)
}

// assignment is the work on one host.
type assignment struct {
	AssignOptions
	name string
	// uid and hostID are those of the Host here.
	uid    types.UID
	hostID string
	// wrote says that this run assigned the Host here.
	wrote bool
	// waiting is what it waits for.
	waiting string
	// state is empty until the host is there.
	state AssignState
	err   error
}

// underWay says whether there is something left to do.
func (a *assignment) underWay() bool { return a.state == "" && a.err == nil }

// waits tells what the host waits for.
func (a *assignment) waits(waiting string) {
	if waiting != a.waiting && a.Report != nil {
		a.Report(a.name, waiting)
	}
	a.waiting = waiting
}

// host returns the Host in a namespace, nil when there is none.
func (a *assignment) host(ctx context.Context, namespace string) (*infrav1.Host, error) {
	h := &infrav1.Host{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.name}, h)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// hosts returns the Host here and the one there.
func (a *assignment) hosts(ctx context.Context) (source, target *infrav1.Host, err error) {
	if source, err = a.host(ctx, a.From); err == nil {
		target, err = a.host(ctx, a.To)
	}
	return source, target, err
}
