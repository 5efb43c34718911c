package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

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
