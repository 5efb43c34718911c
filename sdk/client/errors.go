package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Reason is why a handler could not be called.
type Reason string

const (
	// ReasonUnreachable means that no response arrived: name resolution,
	// connection or TLS failed, or the connection broke.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTimeout means that no response arrived in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonHTTPStatus means a response with an HTTP status other than 200.
	ReasonHTTPStatus Reason = "HTTPStatus"
	// ReasonInvalidResponse means a response that is not the JSON of the hook.
	ReasonInvalidResponse Reason = "InvalidResponse"
	// ReasonTooLarge means a response beyond the limit, or beyond the memory
	// that is left for responses.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonBackoff means that the handler failed shortly before and is left alone.
	ReasonBackoff Reason = "Backoff"
)

// CallError tells that a handler could not be called. Its text is the same for
// the same cause, whatever address or moment, so that conditions do not flap;
// Unwrap gives the details.
type CallError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Hook is the version that was called.
	Hook hook.GroupVersionHook
	// Reason classifies the error.
	Reason Reason
	// StatusCode is the HTTP status with ReasonHTTPStatus.
	StatusCode int
	// RetryAfter is with ReasonBackoff when the handler is called again.
	RetryAfter time.Duration
	// Err is the cause.
	Err error

	message string
	// blameless tells that the handler did nothing wrong.
	blameless bool
}

// Error implements error.
func (e *CallError) Error() string {
	return fmt.Sprintf("cannot call handler %s of hook %s: %s", e.Handler, e.Hook.Hook, e.message)
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// PanicError tells that the call of one of several handlers panicked on the caller's side, in a
// transport for example. Policy Ignore does not ignore it. Call and Invoke let the panic pass.
type PanicError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Value is what was panicked with.
	Value any
	// Stack is that of the goroutine.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("call of handler %s panicked: %v", e.Handler, e.Value)
}

// RejectedError tells that a handler answered with another status than Success.
type RejectedError struct {
	// Handler is the qualified name of the handler.
	Handler string
	// Hook is the version that was called.
	Hook hook.GroupVersionHook
	// Status is what the handler answered.
	Status hooksv1.ResponseStatus
	// Message is the handler's explanation.
	Message string
}

// Error implements error.
func (e *RejectedError) Error() string {
	if e.Status == hooksv1.ResponseStatusFailure {
		return fmt.Sprintf("handler %s of hook %s failed: %s", e.Handler, e.Hook.Hook, e.Message)
	}
	return fmt.Sprintf("handler %s of hook %s answered with the unknown status %q: %s", e.Handler, e.Hook.Hook, e.Status, e.Message)
}

// AggregateError holds the errors of several handlers, ordered by handler.
type AggregateError struct {
	// Hook is the hook that was called.
	Hook hook.GroupHook
	// Errors is not empty.
	Errors []error
	// Called is the number of handlers that were called.
	Called int
}

// Error implements error.
func (e *AggregateError) Error() string {
	texts := make([]string, len(e.Errors))
	for i, err := range e.Errors {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("%d of %d handlers of hook %s failed: %s", len(e.Errors), e.Called, e.Hook.Hook, strings.Join(texts, "; "))
}

// Unwrap returns the errors.
func (e *AggregateError) Unwrap() []error { return e.Errors }

// dialError is an error of Options.DialContext, whose text is for the reader.
type dialError struct{ error }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.error }

// describe names the cause of a transport error without addresses, ports and
// times, which differ from call to call.
func describe(err error) string {
	var dns *net.DNSError
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var operation *net.OpError
	var timeout net.Error
	var dial *dialError
	switch {
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.As(err, &verification):
		return "its certificate is not trusted: " + verification.Err.Error()
	case errors.As(err, &alert):
		return "it refused the TLS connection: " + alert.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was complete"
	case errors.As(err, &operation):
		return "network error during " + operation.Op
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the connection was not made in time"
	case errors.As(err, &dial):
		return dial.Error()
	default:
		// The texts of net/http name streams, or quote what the peer sent.
		return "the connection broke, or what came is not HTTP"
	}
}

// aboutEndpoint tells whether an error is the same for whatever is asked: no
// connection was made.
func aboutEndpoint(err error) bool {
	var dns *net.DNSError
	var verification *tls.CertificateVerificationError
	var dial *dialError
	var operation *net.OpError
	return errors.As(err, &dns) || errors.As(err, &verification) || errors.As(err, &dial) ||
		errors.As(err, &operation) && operation.Op == "dial"
}

// cause returns the cause of a *CallError alone, to nest it in another one.
func cause(err error) string {
	var callErr *CallError
	if errors.As(err, &callErr) {
		return callErr.message
	}
	if err == nil {
		return "a probe is under way"
	}
	return err.Error()
}
