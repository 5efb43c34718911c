package extension

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

const (
	// DefaultTimeout is the time a handler has unless WithTimeout says otherwise.
	DefaultTimeout = hooksv1.DefaultHandlersTimeoutSeconds * time.Second
	// MaxTimeout is the longest timeout that a caller accepts from discovery.
	MaxTimeout = 30 * time.Second
)

// HandlerOption changes how one handler is called.
type HandlerOption func(*handler)

// WithTimeout sets the time that a call may take, 1 s to 30 s in whole seconds.
// Callers learn it from discovery. Default: 10 s.
func WithTimeout(d time.Duration) HandlerOption { return func(h *handler) { h.timeout = d } }

// WithFailurePolicy sets what callers do when they cannot call the handler.
// Default: Fail.
func WithFailurePolicy(p hooksv1.FailurePolicy) HandlerOption {
	return func(h *handler) { h.policy = p }
}

// handler is one registered function in its untyped form.
type handler struct {
	name       string
	definition *hook.Definition
	timeout    time.Duration
	policy     hooksv1.FailurePolicy
	// call is the function within the interceptors.
	call         Func
	interceptors []Interceptor
	// matches say for which requests the function is called; selects that one needs an object.
	matches []func(context.Context, runtime.Object) bool
	selects bool
	tally   tally
}

// Handle registers fn as the handler name of hook h. It can be called while the
// server serves; callers see the handler at their next discovery.
//
// fn gets a context that ends with the caller's deadline and has the logger of the
// call, which logr.FromContext and log.FromContext of controller-runtime return, and
// a request of its own. Returning a nil error means status Success, also with a nil response;
// RetryAfter asks to be called again; any other error becomes status Failure
// with its text as message. fn may be called concurrently and again for the same
// event, so it must be idempotent.
//
// The handler also serves newer versions of h that the catalog can convert. The
// error names what is wrong with the registration.
func Handle[Q, R any](s *Server, h hook.Hook[Q, R], name string, fn func(context.Context, *Q) (*R, error), options ...HandlerOption) error {
	reg := &handler{name: name, definition: h.Definition(), timeout: DefaultTimeout, policy: hooksv1.FailurePolicyFail}
	for _, option := range options {
		option(reg)
	}
	if fn == nil {
		return fmt.Errorf("extension: handler %q has no function", name)
	}
	reg.call = func(ctx context.Context, call *Call) (hooksv1.ResponseObject, error) {
		request, ok := any(call.Request).(*Q)
		if !ok || request == nil {
			return nil, fmt.Errorf("an interceptor made the request a %T, which is none of hook %s", call.Request, reg.definition.Name.Hook)
		}
		response, err := fn(ctx, request)
		if response == nil {
			return nil, err
		}
		return any(response).(hooksv1.ResponseObject), err
	}
	return s.register(reg)
}

func (s *Server) register(h *handler) error {
	if h.definition == nil || s.options.Catalog.Get(h.definition.Name) != h.definition {
		return fmt.Errorf("extension: the hook of handler %q is not in the catalog; add it to Options.Catalog", h.name)
	}
	if h.definition.Meta.Singleton {
		return fmt.Errorf("extension: hook %s is served by the SDK itself", h.definition.Name)
	}
	if errs := validation.IsDNS1123Label(h.name); len(errs) > 0 {
		return fmt.Errorf("extension: invalid handler name %q: %s", h.name, strings.Join(errs, ", "))
	}
	if h.timeout < time.Second || h.timeout > MaxTimeout || h.timeout%time.Second != 0 {
		return fmt.Errorf("extension: handler %q: timeout %s is not a number of seconds from 1 to 30", h.name, h.timeout)
	}
	if h.policy != hooksv1.FailurePolicyFail && h.policy != hooksv1.FailurePolicyIgnore {
		return fmt.Errorf("extension: handler %q: failure policy %q is neither Fail nor Ignore", h.name, h.policy)
	}
	var err error
	if h.call, err = h.matching(h.call); err != nil {
		return fmt.Errorf("extension: handler %q: %w", h.name, err)
	}
	if h.call, err = intercept(h.call, slices.Concat(s.options.Interceptors, h.interceptors)); err != nil {
		return fmt.Errorf("extension: handler %q: %w", h.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.handlers[h.name]; ok {
		return fmt.Errorf("extension: there is already a handler %q; names are unique over all hooks", h.name)
	}
	s.handlers[h.name] = h
	s.rebuild()
	return nil
}

// Remove unregisters the handler name. Calls that run go on. It returns false if
// there is no such handler.
func (s *Server) Remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.handlers[name]; !ok {
		return false
	}
	delete(s.handlers, name)
	s.rebuild()
	return true
}

// retryError asks the caller to come back.
type retryError struct {
	after   time.Duration
	message string
}

// Error implements error.
func (e *retryError) Error() string { return fmt.Sprintf("retry after %s: %s", e.after, e.message) }

// MaxRetryAfter is the longest time that RetryAfter asks for; callers clamp to it.
const MaxRetryAfter = time.Hour

// RetryAfter is returned by a handler of a blocking hook to hold the caller back:
// the response has status Success and retryAfterSeconds d, rounded up to seconds
// within [1 s, 1 h]. message says what is waited for. In a handler of a hook that
// cannot block it becomes status Failure.
func RetryAfter(d time.Duration, message string) error {
	d = min(max(d, time.Second), MaxRetryAfter)
	return &retryError{after: (d + time.Second - 1).Truncate(time.Second), message: message}
}

// finish writes the outcome of a handler of d into its response.
func finish(d *hook.Definition, response hooksv1.ResponseObject, err error) {
	var retry *retryError
	switch {
	case errors.As(err, &retry):
		blocking, ok := response.(hooksv1.RetryResponseObject)
		if !ok || d.Meta.NonBlocking {
			response.SetStatus(hooksv1.ResponseStatusFailure)
			response.SetMessage("the handler asks for a retry, which this hook does not know: " + retry.message)
			return
		}
		blocking.SetStatus(hooksv1.ResponseStatusSuccess)
		blocking.SetRetryAfterSeconds(int32(retry.after / time.Second))
		blocking.SetMessage(retry.message)
	case err != nil:
		response.SetStatus(hooksv1.ResponseStatusFailure)
		response.SetMessage(err.Error())
	case response.GetStatus() == "":
		response.SetStatus(hooksv1.ResponseStatusSuccess)
	}
}
