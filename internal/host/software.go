package host

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Offer is what a Kubernetes version is to a host.
type Offer int

const (
	// OfferNone is a version that the host does not have and its agent does not install.
	OfferNone Offer = iota
	// OfferInstallable is one that its agent installs when an operation requires it.
	OfferInstallable
	// OfferInstalled is one that is on the host.
	OfferInstalled
)

// OfferOf says what a version is to a host. release is the KubernetesRelease of that
// version, nil without one.
func OfferOf(h *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) Offer {
	switch {
	case Offers(h, version):
		return OfferInstalled
	case installs(h, version, release):
		return OfferInstallable
	default:
		return OfferNone
	}
}

// installs says whether the agent of a host installs a version from its release.
func installs(h *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) bool {
	return Managed(h) && release != nil && release.Version == version && slices.Contains(release.Architectures, h.Status.Inventory.Architecture)
}

// WithoutCgroupV1 is the first version of Kubernetes whose kubelet refuses control groups of version 1, unless its
// failCgroupV1 is false.
const WithoutCgroupV1 = "1.35"

var withoutCgroupV1 = version.MustParseMajorMinor(WithoutCgroupV1)

// NeedsOtherCgroups says whether the kubelet of a version refuses the control groups of a host, as far as its
// configuration does not say otherwise.
func NeedsOtherCgroups(h *infrav1.Host, kubernetes string) bool {
	v := minor(kubernetes)
	return h.Status.Inventory.Cgroups == infrav1.CgroupV1 && v != nil && v.AtLeast(withoutCgroupV1)
}

// NotOffered says that a host does not offer a version, and what to do.
func NotOffered(h *infrav1.Host, version string) string {
	remedy := "Install it on the host"
	if Managed(h) {
		remedy = fmt.Sprintf("Load its host bundle for %s by `slipway bundle load`, or install it on the host", h.Status.Inventory.Architecture)
	}
	return fmt.Sprintf("Host %s does not offer Kubernetes %s. %s", h.Name, version, remedy)
}

// Managed says whether the host's agent reports that it installs versions.
func Managed(h *infrav1.Host) bool {
	return h.Status.Software.Management == infrav1.HostSoftwareManaged
}

// Offers says whether a Kubernetes version is installed on the host.
func Offers(h *infrav1.Host, version string) bool {
	return slices.Contains(h.Status.Inventory.KubernetesVersions, version)
}

// ReleaseDigest is what an operation names of the release of its version, also on a host
// that has the version: by the time the agent begins it may have gone. It is empty where
// the agent installs nothing.
func ReleaseDigest(h *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) string {
	if !installs(h, version, release) {
		return ""
	}
	return release.Digest
}

// FollowRelease makes an operation that the agent has not ended name the bundle that the
// release of its version names now: the one that it named may be served no more. It says
// whether anything changed. Without a release all stays as it is.
func FollowRelease(h *infrav1.Host, release *infrav1.KubernetesReleaseSpec) bool {
	desired := h.Spec.Desired
	if desired == nil || release == nil || release.Version != desired.Version || !Busy(h) {
		return false
	}
	if desired.Phase != infrav1.HostDesiredUpgraded && (desired.Phase != infrav1.HostDesiredBootstrapped || Bootstrapped(h)) {
		return false
	}
	// What a host reports may be lost for a while, as in a move.
	digest := ReleaseDigest(h, desired.Version, release)
	if digest == "" && desired.ReleaseDigest != "" {
		digest = release.Digest
	}
	if digest == "" || digest == desired.ReleaseDigest {
		return false
	}
	desired.ReleaseDigest = digest
	return true
}
