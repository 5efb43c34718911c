package upgrade

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// checkSkew holds an upgrade to Kubernetes' version skew policy: a kubelet goes up
// by one minor at a time, never down, and is never newer than the API server.
// Patch versions within a minor go up only, too. server is empty while unknown.
func checkSkew(from, to, server string) error {
	refuse := func(reason string, retry operation.Retry, format string, args ...any) error {
		return &operation.Error{Reason: reason, Retry: retry, Message: fmt.Sprintf(format, args...)}
	}
	target, err := version.ParseSemantic(to)
	if err != nil {
		return refuse(operation.ReasonVersionSkew, operation.RetryNever, "the version %.64q to upgrade to is none: %v", to, err)
	}
	current, err := version.ParseSemantic(from)
	if err != nil {
		return refuse(operation.ReasonVersionSkew, operation.RetryNever, "the kubelet of this host reports the version %.64q, which is none: %v", from, err)
	}
	switch {
	case target.LessThan(current):
		return refuse(operation.ReasonDowngrade, operation.RetryNever,
			"this host runs %s: a kubelet is never taken down to an older version such as %s; replace the Machine instead", from, to)
	case target.Major() != current.Major() || target.Minor() > current.Minor()+1:
		return refuse(operation.ReasonVersionSkew, operation.RetryNever,
			"this host runs %s: %s is more than one minor version away; upgrade to v%d.%d first, or replace the Machine", from, to, current.Major(), current.Minor()+1)
	}
	api, err := version.ParseSemantic(server)
	if err == nil && target.Minor() > api.Minor() {
		return refuse(operation.ReasonControlPlaneOlder, operation.RetryLater,
			"the API server is of %s: a kubelet of %s must not be newer; waiting for the control plane to be upgraded first", server, to)
	}
	return nil
}
