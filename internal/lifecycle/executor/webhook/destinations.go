package webhook

import (
	"fmt"
	"net/netip"

	"github.com/slipway-dev/slipway/sdk/client"
)

// reserved are networks that are no public destination, beside those that netip itself
// knows as loopback, private, link-local and multicast: the networks of Services and
// pods are among them in practice.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),  // shared address space, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),   // IETF protocol assignments, RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"),  // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),    // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),   // IPv4 behind NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"), // the same, RFC 8215
	netip.MustParsePrefix("2002::/16"),      // IPv4 behind 6to4, RFC 3056
	netip.MustParsePrefix("fec0::/10"),      // site-local, RFC 3879
}

// destination says why no endpoint may have an address, which is as resolved: public
// ones, and those in networks that an administrator allows. Those of client.RefuseLinkLocal, where
// clouds keep credentials, are never allowed.
func destination(address netip.Addr, allowed []netip.Prefix) error {
	address = address.Unmap().WithZone("")
	if err := client.RefuseLinkLocal(address); err != nil {
		return err
	}
	for _, network := range allowed {
		if network.Contains(address) {
			return nil
		}
	}
	public := !address.IsLoopback() && !address.IsPrivate()
	for _, network := range reserved {
		public = public && !network.Contains(address)
	}
	if !public {
		return fmt.Errorf("the address %s is not public, and in no network that webhook steps may call; an administrator allows it by --webhook-allowed-networks", address)
	}
	return nil
}
