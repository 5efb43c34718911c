package client

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
)

// describe names the cause of a transport error without addresses, ports and
// times, which differ from call to call.
func describe(err error) string {
	var dns *net.DNSError
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case errors.As(err, &verification):
		return "its certificate is not trusted: " + verification.Err.Error()
	case errors.As(err, &alert):
		return "it refused the TLS connection: " + alert.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the answer was complete"
	case errors.As(err, &operation):
		return "network error during " + operation.Op
	default:
		return err.Error()
	}
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
