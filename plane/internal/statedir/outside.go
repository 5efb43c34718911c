package statedir

import (
	"net"
	"net/netip"
)

// Outside is how hosts on other machines reach a plane.
type Outside struct {
	// Server is the URL of the API server that they are told.
	Server string `json:"server"`
	// Addresses are where the plane listens for them, each IP:PORT.
	Addresses []string `json:"addresses"`
	// Names are the names and addresses that clients verify, besides those.
	Names []string `json:"names,omitempty"`
	// Listen and TLSNames are what was asked for.
	Listen   string `json:"listen"`
	TLSNames string `json:"tlsNames,omitempty"`
}

// Held are the addresses where the plane listens.
func (o *Outside) Held() []netip.AddrPort {
	held := make([]netip.AddrPort, 0, len(o.Addresses))
	for _, address := range o.Addresses {
		if at, err := netip.ParseAddrPort(address); err == nil {
			held = append(held, at)
		}
	}
	return held
}

// Subjects are the addresses and names that clients verify. One that stands for all
// addresses is none that a client calls.
func (o *Outside) Subjects() (addresses []net.IP, names []string) {
	for _, at := range o.Held() {
		if !at.Addr().IsUnspecified() {
			addresses = append(addresses, at.Addr().AsSlice())
		}
	}
	for _, name := range o.Names {
		switch ip := net.ParseIP(name); {
		case ip == nil:
			names = append(names, name)
		case !ip.IsUnspecified():
			addresses = append(addresses, ip)
		}
	}
	return addresses, names
}
