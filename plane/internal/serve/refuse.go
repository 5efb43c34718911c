package serve

import (
	"fmt"
	"net/netip"

	"github.com/slipway-dev/slipway/plane/internal/network"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
)

// Refuse is for network.MachineDialer: whoever may write a Cluster or its kubeconfig chooses
// where the plane connects to, and must not reach by that what serves this machine alone: its
// loopback, or the metadata of a cloud.
func Refuse(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	if err := sdkclient.RefuseLinkLocal(address); err != nil {
		return err
	}
	switch {
	case address.IsLoopback():
		return fmt.Errorf("the API server of a cluster must not have the address %s", address)
	case network.Contains(address):
		return fmt.Errorf("%s is an address of the plane's own network, %s and %s", address, network.Subnet, network.Subnet6)
	}
	return nil
}
