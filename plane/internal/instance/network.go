package instance

import (
	"net"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// apiServerPort is where the API server listens in the network of the plane; on the
// machine it has APIPort.
const apiServerPort = "6443"

// Network of the plane.
func (c Config) Network() network.Network {
	return network.Network{Name: c.Name, Beside: c.Beside}
}

// Server is the URL of the plane's API server as local hosts see it.
func (c Config) Server() string {
	return "https://" + net.JoinHostPort(c.Network().Address().String(), apiServerPort)
}

// HostServer is the URL of the plane's API server as hosts on other machines see it, or as
// local hosts do where it listens for no others.
func (c Config) HostServer() string {
	if l, err := c.ListensAt(); err == nil && l != nil {
		return l.Server()
	}
	return c.Server()
}
