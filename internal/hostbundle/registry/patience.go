package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

const (
	// patientTries is how often on end something may fail without any progress, for two
	// minutes; hastyTries how often where there is another source, for two seconds.
	patientTries, hastyTries = 8, 2
	// longestWait is the longest time between two tries.
	longestWait = 30 * time.Second
	// longQueue is how long, all in all, a server may say that it is busy while it describes a bundle
	// or sends content; shortQueue where there is another source.
	longQueue, shortQueue = 2 * time.Hour, 2 * time.Minute
)

// againError is an error that another attempt may not meet.
type againError struct {
	err error
	// progress says that the try was not in vain.
	progress bool
}

func (e *againError) Error() string { return e.err.Error() }
func (e *againError) Unwrap() error { return e.err }

// busyError is a server with more to do than it takes on.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string { return "the server is busy" }

// notFoundError is what a server does not have.
type notFoundError struct{ err error }

func (e *notFoundError) Error() string { return e.err.Error() }
func (e *notFoundError) Unwrap() error { return e.err }

// pause is the wait after so many failures on end, with a part that is random.
func pause(failures int) time.Duration {
	wait := min(200*time.Millisecond<<min(2*failures, 10), longestWait)
	return wait/2 + rand.N(wait/2+1)
}

// patiently tries until something works, fails for good, or failed too often on end.
func (r *server) patiently(ctx context.Context, try func(context.Context) error) error {
	for failures := 0; ; {
		began := time.Now()
		err := r.judge(try(ctx))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var again *againError
		var busy *busyError
		var wait time.Duration
		switch {
		case errors.As(err, &busy):
			wait = max(busy.after, r.wait(1))
			if r.busy += time.Since(began) + wait; r.busy > r.queue {
				return &hostbundle.Error{Reason: hostbundle.ReasonUnreachable, Err: fmt.Errorf("%s: %w for %s already", r, err, r.queue)}
			}
		case !errors.As(err, &again):
			return err
		case again.progress:
			failures = 0
			wait = r.wait(0)
		default:
			if failures++; failures >= r.tries {
				return &hostbundle.Error{Reason: hostbundle.ReasonUnreachable, Err: fmt.Errorf("%s: tried %d times: %w", r, failures, err)}
			}
			wait = r.wait(failures)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// judge separates errors that may be retried from those that need an operator.
func (r *server) judge(err error) error {
	var again *againError
	var busy *busyError
	var own *hostbundle.Error
	var answer *errcode.ErrorResponse
	var unknown x509.UnknownAuthorityError
	var invalid *tls.CertificateVerificationError
	var refused *url.Error
	var unnamed *net.DNSError
	var alert *net.OpError
	var disk *fs.PathError
	switch {
	case err == nil, errors.As(err, &again), errors.As(err, &busy), errors.As(err, &own):
		return err
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return r.denied("%w; name a file with credentials by --registry-config", err)
	case errors.As(err, &answer):
		return r.judgeAnswer(answer)
	case errors.Is(err, errdef.ErrNotFound):
		return &notFoundError{fmt.Errorf("%s: %w", r, err)}
	case errors.As(err, &unknown):
		return r.denied("its certificate is by no CA that is trusted here; name the CA by --ca-file: %w", err)
	case errors.As(err, &invalid):
		return r.denied("%w; is the clock of this host right, and the address one of the certificate?", err)
	case errors.As(err, &alert) && alert.Op == "remote error":
		return r.denied("it does not take the certificate of this host: %w", err)
	case errors.As(err, &unnamed) && unnamed.IsNotFound:
		return &hostbundle.Error{Reason: hostbundle.ReasonUnreachable, Err: fmt.Errorf("%s: %w", r, err)}
	case errors.As(err, &disk):
		return err
	case errors.As(err, &refused), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &againError{err: err}
	}
	// what it sent is none of the API
	return fmt.Errorf("%s: %w", r, err)
}

func (r *server) judgeAnswer(answer *errcode.ErrorResponse) error {
	switch status := answer.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return &busyError{after: r.wait(patientTries)}
	case status == http.StatusNotFound:
		return &notFoundError{fmt.Errorf("%s: %w", r, answer)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return r.denied("it may not be read: %w; name a file with credentials by --registry-config", answer)
	case status >= http.StatusInternalServerError || status == http.StatusRequestTimeout || status == http.StatusRequestedRangeNotSatisfiable:
		return &againError{err: answer}
	}
	return fmt.Errorf("%s: %w", r, answer)
}

func (r *server) denied(format string, args ...any) error {
	return &hostbundle.Error{Reason: hostbundle.ReasonDenied, Err: fmt.Errorf("%s: "+format, append([]any{r}, args...)...)}
}

// answered makes an error of a response that is none to a request for content.
func answered(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds < 0 {
			seconds = int(longestWait / time.Second / 2)
		}
		return &busyError{after: min(time.Duration(seconds)*time.Second, 10*longestWait)}
	}
	answer := &errcode.ErrorResponse{Method: response.Request.Method, URL: response.Request.URL, StatusCode: response.StatusCode}
	var body struct {
		Errors errcode.Errors `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&body) == nil {
		answer.Errors = body.Errors
	}
	return answer
}
