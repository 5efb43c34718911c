package client

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

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
