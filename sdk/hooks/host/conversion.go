package host

import (
	"maps"

	"github.com/slipway-dev/slipway/sdk/hooks/host/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
)

// reasonUnspecified is the reason of a handler that could not give one.
const reasonUnspecified = "Unspecified"

// downClaim loses the labels and addresses of the host, which v1alpha1 never had.
func downClaim(in *v1beta1.BeforeHostClaimRequest, out *v1alpha1.BeforeHostClaimRequest) error {
	out.Settings = maps.Clone(in.Settings)
	out.ClusterName = in.ClusterName
	out.MachineNamespace = in.Machine.Namespace
	out.MachineName = in.Machine.Name
	out.HostName = in.Host.Name
	return nil
}

func upClaim(in *v1alpha1.BeforeHostClaimResponse, out *v1beta1.BeforeHostClaimResponse) error {
	out.CommonRetryResponse = in.CommonRetryResponse
	if in.RetryAfterSeconds != 0 {
		out.Reason = reasonUnspecified
	}
	return nil
}

func downRelease(in *v1beta1.AfterHostReleaseRequest, out *v1alpha1.AfterHostReleaseRequest) error {
	out.Settings = maps.Clone(in.Settings)
	out.HostName = in.Host.Name
	return nil
}

func upRelease(in *v1alpha1.AfterHostReleaseResponse, out *v1beta1.AfterHostReleaseResponse) error {
	out.CommonRetryResponse = in.CommonRetryResponse
	return nil
}
