package serve

import (
	"errors"
	"os"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// What Go's HTTP clients read, as the documentation of net/http.ProxyFromEnvironment tells.
const (
	httpsProxy = "HTTPS_PROXY"
	noProxy    = "NO_PROXY"
)

// otherProxies are the variables that must be gone besides.
var otherProxies = []string{"HTTP_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"}

// UseProxy makes this process, and what it starts, reach servers outside of the plane's
// network by the proxy at an address, host:port; with an empty one, none. A proxy that the
// machine's environment names is forgotten: nothing reaches that from the plane's namespace,
// so clients would fail at it. It is called before any client is made: they read the
// environment once.
func UseProxy(address string) error {
	var errs []error
	for _, name := range append(otherProxies, httpsProxy, noProxy) {
		errs = append(errs, os.Unsetenv(name))
	}
	if address != "" {
		errs = append(errs, os.Setenv(httpsProxy, "http://"+address), os.Setenv(noProxy, network.Subnet.String()+","+network.Subnet6.String()))
	}
	return errors.Join(errs...)
}
