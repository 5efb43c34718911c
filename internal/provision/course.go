package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Event is the begin or the end of a step.
type Event struct {
	// Subject is the address of a machine that is added, or the name of a Host that is
	// removed.
	Subject string
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
	// StateRemoved means that the Host is gone, and nothing is left on the machine.
	StateRemoved State = "Removed"
	// StateDetached means that the Host is gone, and the machine as it was.
	StateDetached State = "Detached"
	// StateFailed means that a step failed.
	StateFailed State = "Failed"
)

// Result is what became of one machine; its fields are an API.
type Result struct {
	// Address the machine was reached at; empty when it was not to be reached.
	Address string `json:"address,omitempty"`
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
	// Left are the paths that are left on a machine whose host was removed.
	Left []Left `json:"left,omitempty"`
	// Err is why it failed; nil otherwise.
	Err error `json:"-"`
}

// each does the work on all of them, several at a time. The results are in their order; a
// failure is a result.
func each[T any](all []T, parallel int, finished func(Result), work func(T) Result) []Result {
	results := make([]Result, len(all))
	var group errgroup.Group
	group.SetLimit(max(1, parallel))
	for i, one := range all {
		group.Go(func() error {
			results[i] = work(one)
			if finished != nil {
				finished(results[i])
			}
			return nil
		})
	}
	_ = group.Wait()
	return results
}

// course leads one machine through the steps of a command, and makes a result of it.
type course struct {
	Report  func(Event)
	Timeout time.Duration
	now     func() time.Time
	subject string
	result  Result
}

// follow does the work on what the subject names.
func (c *course) follow(ctx context.Context, subject string, do func(context.Context) error) Result {
	c.subject = subject
	begin := c.now()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err := do(ctx)
	c.result.Seconds = c.now().Sub(begin).Round(100 * time.Millisecond).Seconds()
	switch {
	case errors.Is(err, errSame):
		c.result.State, c.result.Message = StateSame, err.Error()
	case err != nil:
		c.fail(outer, ctx, err)
	}
	return c.result
}

func (c *course) step(ctx context.Context, name Step, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.result.Step = name
	c.tell(Event{Step: name})
	begin := c.now()
	err := do(ctx)
	e := Event{Step: name, Done: true, Err: err, Took: c.now().Sub(begin)}
	if errors.Is(err, errSame) {
		e.Err = nil
		c.tell(e)
		return err
	}
	c.tell(e)
	if err == nil {
		c.result.Step = ""
	}
	return err
}

func (c *course) tell(e Event) {
	if c.Report != nil {
		e.Subject = c.subject
		c.Report(e)
	}
}

// fail makes one message and one remedy of an error.
func (c *course) fail(outer, ctx context.Context, err error) {
	c.result.State, c.result.Err, c.result.Message = StateFailed, err, err.Error()
	var p *Problem
	var bundle *hostbundle.Error
	var exit *ExitError
	var file *fs.PathError
	switch {
	case outer.Err() != nil:
		c.result.Reason, c.result.Message, c.result.Remedy = ReasonInterrupted, "interrupted", "the same command goes on"
	case errors.As(err, &p):
		c.result.Reason, c.result.Remedy = p.Reason, p.Remedy
	case ctx.Err() != nil:
		c.result.Reason, c.result.Remedy = ReasonInterrupted, "the same command goes on; --timeout gives it longer"
		c.result.Message = fmt.Sprintf("not done after %s", c.Timeout)
		if c.result.Step == StepEnroll {
			c.result.Remedy += "; on the machine, `journalctl -u slipway-agent` tells what it waits for"
		}
	case errors.As(err, &bundle):
		c.result.Reason = Reason(bundle.Reason)
		if slices.Contains([]hostbundle.Reason{hostbundle.ReasonCorrupt, hostbundle.ReasonUnsigned, hostbundle.ReasonUntrusted}, bundle.Reason) {
			c.result.Remedy = "get the host bundle again, or the public key of whoever signed it"
		}
	case errors.As(err, &exit):
		c.result.Reason = ReasonCommandFailed
	case errors.As(err, &file):
		c.result.Reason, c.result.Remedy = ReasonLocalFile, "see to that file here; the same command goes on"
	default:
		c.result.Reason = ReasonManagementRejected
	}
}
