package egress

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// metadata are the addresses that clouds serve to a machine alone, besides link-local ones:
// of Amazon and Google by IPv6, of Azure, of Alibaba and of Oracle.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"),
}

// Refuse is for network.MachineDialer: whoever may write a Cluster or its kubeconfig chooses
// where the plane connects to, and must not reach by that what serves this machine alone: its
// loopback, or the metadata of a cloud.
func Refuse(address netip.Addr) error {
	switch address = address.Unmap(); {
	case address.IsLoopback(), address.IsUnspecified(), address.IsLinkLocalUnicast(), address.IsMulticast(),
		slices.Contains(metadata, address):
		return fmt.Errorf("the API server of a cluster must not have the address %s", address)
	case network.Subnet.Contains(address):
		return fmt.Errorf("%s is an address of the plane's own network, %s", address, network.Subnet)
	}
	return nil
}
