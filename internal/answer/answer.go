// Package answer tells answers of API servers apart.
package answer

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Away says whether an API server answers that it is away, busy, or too slow: the same request may succeed in a moment, and
// nothing is wrong with it. It may have been carried out.
func Away(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// Passing says whether an error may be gone at the next look: that of an API server which is away, which failed within itself,
// or, by any other error than an answer, which was not reached.
func Passing(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || Away(err) || apierrors.IsInternalError(err))
}

// Unreached says whether a request ended without an answer since nothing listens, or the connection ended or was too slow.
func Unreached(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}
