package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// Call is one call of a handler as an Interceptor sees it.
type Call struct {
	// Hook is the version that the handler implements. A request of a newer version
	// has been converted to it.
	Hook hook.GroupVersionHook
	// Handler is the name of the handler, empty for discovery.
	Handler string
	// RequestID is what the caller calls the request, or a name of the server's own.
	RequestID string
	// Object is what the request is about, zero if it is about nothing.
	Object hook.ObjectReference
	// Request is a pointer to the request type of Hook, the call's own.
	Request runtime.Object
	// Header holds the headers of the HTTP request. It must not be changed.
	Header http.Header
	// TLS is the state of the connection, with the certificate of the caller if it
	// has one, nil for calls in memory.
	TLS *tls.ConnectionState
}

// Func handles one call. The error is what a function passed to Handle returns:
// RetryAfter, or why the call fails. A nil response with a nil error is a success.
type Func func(ctx context.Context, call *Call) (hooksv1.ResponseObject, error)

// Interceptor wraps the handling of a call: it may look at the call, change its
// request, answer itself, or change what next answers. It is called once for each
// handler, when that is registered. What it returns runs under the deadline of the
// call, with the logger of the call in its context; its panics are answered like
// those of a handler.
type Interceptor func(next Func) Func

// WithInterceptors adds interceptors of one handler, within those of
// Options.Interceptors. The first one is the outermost.
func WithInterceptors(interceptors ...Interceptor) HandlerOption {
	return func(h *handler) { h.interceptors = append(h.interceptors, interceptors...) }
}

// intercept returns final within the interceptors, the first one outermost.
func intercept(final Func, interceptors []Interceptor) (Func, error) {
	for _, interceptor := range slices.Backward(interceptors) {
		if interceptor == nil {
			return nil, errors.New("an interceptor is nil")
		}
		if final = interceptor(final); final == nil {
			return nil, errors.New("an interceptor returns no function")
		}
	}
	return final, nil
}

// checked is the outcome of the interceptors as one of the handler's hook.
func checked(d *hook.Definition, response hooksv1.ResponseObject, err error) (hooksv1.ResponseObject, error) {
	switch {
	case response == nil:
		return d.NewResponse(), err
	case !d.IsResponse(response):
		return d.NewResponse(), errors.Join(err, fmt.Errorf("an interceptor answers with %T, which is no response of hook %s", response, d.Name.Hook))
	}
	// What the handler returned may be its own, one for all calls: what is written into
	// the answer to one must not show in that to another.
	copied := d.NewResponse()
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(response).Elem())
	return copied, err
}

// WithMatch calls the handler only for requests that match; others are answered with an empty
// success. Whoever calls, the server decides: Cluster API's manager knows a namespaceSelector
// only, and ignores the annotations of an ExtensionConfig by which a plane of slipway selects.
func WithMatch(match func(ctx context.Context, request runtime.Object) bool) HandlerOption {
	return func(h *handler) { h.matches = append(h.matches, match) }
}

// WithObjectSelector calls the handler only for requests about an object with such labels: the
// Cluster of a lifecycle hook, or the Machine or MachineSet of an update in place. Handle refuses it
// for a hook whose requests have no such object, such as GeneratePatches.
func WithObjectSelector(selector labels.Selector) HandlerOption {
	return func(h *handler) {
		h.selects = true
		h.matches = append(h.matches, func(_ context.Context, request runtime.Object) bool {
			object := objectIn(request)
			return object != nil && selector.Matches(labels.Set(object.GetLabels()))
		})
	}
}

// objectPaths lead to the object that a request is about.
var objectPaths = [][]string{{"Cluster"}, {"Desired", "Machine"}, {"Desired", "MachineSet"}}

func objectIn(request runtime.Object) metav1.Object {
	for _, path := range objectPaths {
		v := reflect.ValueOf(request).Elem()
		for _, name := range path {
			if v.Kind() != reflect.Struct {
				break
			}
			v = v.FieldByName(name)
		}
		if v.IsValid() && v.CanAddr() {
			if object, ok := v.Addr().Interface().(metav1.Object); ok {
				return object
			}
		}
	}
	return nil
}

// matching wraps a handler's function with its matches.
func (h *handler) matching(next Func) (Func, error) {
	if h.selects && objectIn(h.definition.NewRequest()) == nil {
		return nil, fmt.Errorf("requests of hook %s have no object with labels; use WithMatch", h.definition.Name.Hook)
	}
	if len(h.matches) == 0 {
		return next, nil
	}
	return func(ctx context.Context, call *Call) (hooksv1.ResponseObject, error) {
		for _, match := range h.matches {
			if !match(ctx, call.Request) {
				return nil, nil //nolint:nilnil // an empty success
			}
		}
		return next(ctx, call)
	}, nil
}
