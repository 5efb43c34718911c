package host_test

import (
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

const onDemand = "v1.37.0"

// release of a version that no host of these tests has.
func release(architectures ...string) *infrav1.KubernetesReleaseSpec {
	return &infrav1.KubernetesReleaseSpec{Version: onDemand, Digest: "sha256:" + strings.Repeat("a", 64), Architectures: architectures}
}

// managed makes the agent of a host one that installs versions.
func managed(h *infrav1.Host) {
	h.Status.Software.Management = infrav1.HostSoftwareManaged
	h.Status.Inventory.Architecture = "arm64"
}

func TestOfferOf(t *testing.T) {
	for name, tc := range map[string]struct {
		host    *infrav1.Host
		version string
		release *infrav1.KubernetesReleaseSpec
		want    host.Offer
	}{
		"installed":                 {running(), newVersion, nil, host.OfferInstalled},
		"installed and in a bundle": {running(managed, func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = []string{onDemand} }), onDemand, release("arm64"), host.OfferInstalled},
		"can be installed":          {running(managed), onDemand, release("amd64", "arm64"), host.OfferInstallable},
		"no release":                {running(managed), onDemand, nil, host.OfferNone},
		"release of another":        {running(managed), "v1.38.0", release("arm64"), host.OfferNone},
		"other architecture":        {running(managed), onDemand, release("amd64"), host.OfferNone},
		"agent of before":           {running(func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" }), onDemand, release("arm64"), host.OfferNone},
		"provided": {running(managed, func(h *infrav1.Host) { h.Status.Software.Management = infrav1.HostSoftwareProvided }), onDemand,
			release("arm64"), host.OfferNone},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.OfferOf(tc.host, tc.version, tc.release); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// An upgrade names the bundle, which the next operation forgets.
func TestUpgradeToAVersionThatIsInstalledOnDemand(t *testing.T) {
	if h := running(); host.RequestUpgrade(h, onDemand, release("arm64")) {
		t.Errorf("requested of a host whose operator installs: %+v", h.Spec.Desired)
	}
	h := running(managed)
	if !host.RequestUpgrade(h, onDemand, release("arm64")) || h.Spec.Desired.ReleaseDigest != release().Digest || h.Spec.Desired.Version != onDemand {
		t.Fatalf("desired = %+v", h.Spec.Desired)
	}
	report(infrav1.OperationSucceeded)(h)
	if host.RequestReboot(h, 1, ""); h.Spec.Desired.Phase != infrav1.HostDesiredRebooted || h.Spec.Desired.ReleaseDigest != "" {
		t.Errorf("desired = %+v", h.Spec.Desired)
	}
}

func TestFollowRelease(t *testing.T) {
	upgraded := func(h *infrav1.Host) { host.RequestUpgrade(h, onDemand, release("arm64")) }
	other := release("arm64")
	other.Digest = "sha256:" + strings.Repeat("b", 64)
	forget := func(h *infrav1.Host) { h.Status = infrav1.HostStatus{} }
	for name, tc := range map[string]struct {
		host    *infrav1.Host
		release *infrav1.KubernetesReleaseSpec
		want    bool
	}{
		"loaded anew":                  {running(managed, upgraded), other, true},
		"loaded anew, under way":       {running(managed, upgraded, report(infrav1.OperationRunning)), other, true},
		"loaded anew, the report lost": {running(managed, upgraded, forget), other, true},
		"the same":                     {running(managed, upgraded), release("arm64"), false},
		"removed":                      {running(managed, upgraded), nil, false},
		"of another version":           {running(managed, upgraded), &infrav1.KubernetesReleaseSpec{Version: "v1.38.0", Digest: other.Digest, Architectures: []string{"arm64"}}, false},
		"done":                         {running(managed, upgraded, report(infrav1.OperationSucceeded)), other, false},
		"a node, the report lost": {running(managed, func(h *infrav1.Host) {
			h.Spec.Desired.Version, h.Spec.Desired.ReleaseDigest = onDemand, release().Digest
			host.RecordBootstrap(h.Spec.Desired)
		}, forget), other, false},
		"a bootstrap, loaded only later": {running(managed, func(h *infrav1.Host) { h.Spec.Desired.Version = onDemand }, report(infrav1.OperationRunning)), other, true},
		"of an operator's host":          {running(func(h *infrav1.Host) { h.Spec.Desired.Version = onDemand }, report(infrav1.OperationRunning)), other, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.host.Spec.Desired.ReleaseDigest
			got := host.FollowRelease(tc.host, tc.release)
			if got != tc.want || got != (tc.host.Spec.Desired.ReleaseDigest != before) || got && tc.host.Spec.Desired.ReleaseDigest != tc.release.Digest {
				t.Errorf("got %t: %+v", got, tc.host.Spec.Desired)
			}
		})
	}
}
