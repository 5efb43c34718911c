package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// UnavailableError says why a workload cluster cannot be worked on, and what to do.
type UnavailableError struct {
	// Cluster whose workload cluster it is.
	Cluster types.NamespacedName
	// Problem in a few words, with its object or address.
	Problem string
	// Remedy tells what to do.
	Remedy string
	// Err is the cause; nil when the problem says all.
	Err error
}

// Error returns the problem, its cause and the remedy.
func (e *UnavailableError) Error() string {
	problem := e.Problem
	if e.Err != nil {
		problem = fmt.Sprintf("%s: %v", e.Problem, e.Err)
	}
	return fmt.Sprintf("workload cluster of Cluster %s: %s; %s", e.Cluster, problem, e.Remedy)
}

// Unreached tells package step that nothing is known of the workload cluster.
func (*UnavailableError) Unreached() bool { return true }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// IsUnavailable says whether err is, or wraps, an *UnavailableError: the workload
// cluster was not reached, so nothing is known of what is in it.
func IsUnavailable(err error) bool {
	var unavailable *UnavailableError
	return errors.As(err, &unavailable)
}

// explaining turns what keeps a request from being answered into an UnavailableError.
type explaining struct {
	cluster types.NamespacedName
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t explaining) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil || errors.Is(err, context.Canceled) {
		return response, err
	}
	return response, &UnavailableError{
		Cluster: t.cluster,
		Problem: "its API server at " + request.URL.Host + " does not answer",
		Remedy:  "look at its control plane and at spec.controlPlaneEndpoint, or skip the step if the cluster is lost",
		Err:     err,
	}
}
