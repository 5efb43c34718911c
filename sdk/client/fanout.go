package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// errDeadline marks the end of Options.Deadline, which is a failure of the
// handlers, not the caller's wish.
var errDeadline = errors.New("the deadline of the call is over")

// Outcome is what all handlers of a hook together answered, with R as the response:
// *T of the hook's own response from CallAll, hooksv1.ResponseObject from InvokeAll.
type Outcome[R any] struct {
	// Response aggregates the responses: status Success, the messages joined, and
	// the shortest retryAfterSeconds that is not zero. Other fields are empty.
	Response R
	// Answers holds what each handler answered, ordered by name.
	Answers []Answer[R]
	// RetryAfter is when to call again, zero if no handler blocks.
	RetryAfter time.Duration
}

// Blocked tells whether a handler asked to be called again before going on.
func (o *Outcome[R]) Blocked() bool { return o.RetryAfter > 0 }

// Answer is what one handler answered.
type Answer[R any] struct {
	// Name is the qualified name of the handler.
	Name string
	// Response is its response, or an empty one with status Success if an error was ignored.
	Response R
	// Ignored is the *CallError that the failure policy Ignore swallowed.
	Ignored error
}

// untyped is the answer of a handler to a hook whose types are not known at compile time.
type untyped = Answer[hooksv1.ResponseObject]

// InvokeAll is CallAll for a hook whose types are not known at compile time.
func (c *Client) InvokeAll(ctx context.Context, h hook.Any, object registry.Object, request runtime.Object) (*Outcome[hooksv1.ResponseObject], error) {
	definition, err := c.known(h)
	if err != nil {
		return nil, err
	}
	registrations, err := c.options.Registry.Match(ctx, definition.Name.GroupHook(), object)
	if err != nil {
		return nil, fmt.Errorf("handlers of hook %s: %w", definition.Name.Hook, err)
	}
	encoder, err := c.newEncoder(definition, object, request)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.options.Deadline, errDeadline)
	defer cancel()
	answers, errs := c.fanOut(bounded, encoder, registrations)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("call of hook %s: %w", definition.Name.Hook, err)
	}
	if len(errs) > 0 {
		return nil, &AggregateError{Hook: definition.Name.GroupHook(), Errors: errs, Called: len(registrations)}
	}
	return aggregate(definition, answers), nil
}

// fanOut calls the handlers, at most Options.MaxConcurrent at a time. Answers and
// errors are in the order of registrations.
func (c *Client) fanOut(ctx context.Context, e *encoder, registrations []*registry.Registration) ([]untyped, []error) {
	answers := make([]untyped, len(registrations))
	errs := make([]error, len(registrations))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(c.options.MaxConcurrent, len(registrations)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(registrations)); i = next.Add(1) - 1 {
				answers[i], errs[i] = c.recovered(ctx, e, registrations[i])
			}
		})
	}
	workers.Wait()
	failed := errs[:0]
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return answers, failed
}

// recovered is answer for a goroutine of its own, where a panic, of a transport for example, would
// end the process: nobody but the goroutine itself can recover from it.
func (c *Client) recovered(ctx context.Context, e *encoder, r *registry.Registration) (answer untyped, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Handler: r.Name, Value: value, Stack: debug.Stack()}
		}
	}()
	return c.answer(ctx, e, r)
}

// aggregate makes one response of many: the shortest wish to retry wins.
func aggregate(d *hook.Definition, answers []untyped) *Outcome[hooksv1.ResponseObject] {
	outcome := &Outcome[hooksv1.ResponseObject]{Response: d.NewResponse(), Answers: answers}
	var messages, named []string
	var retry int32
	for _, answer := range answers {
		if message := answer.Response.GetMessage(); message != "" {
			messages, named = append(messages, message), append(named, answer.Name+": "+message)
		}
		if blocking, ok := answer.Response.(hooksv1.RetryResponseObject); ok {
			if asked := blocking.GetRetryAfterSeconds(); asked > 0 && (retry == 0 || asked < retry) {
				retry = asked
			}
		}
	}
	outcome.Response.SetStatus(hooksv1.ResponseStatusSuccess)
	if len(messages) > 1 {
		messages = named // of which handler each is
	}
	outcome.Response.SetMessage(strings.Join(messages, ", "))
	if blocking, ok := outcome.Response.(hooksv1.RetryResponseObject); ok {
		blocking.SetRetryAfterSeconds(retry)
		outcome.RetryAfter = time.Duration(retry) * time.Second
	}
	return outcome
}
