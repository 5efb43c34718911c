package testenv

import (
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// StartServer starts an API server with etcd. When it fails it leaves nothing running.
func StartServer(server *envtest.Environment) (*rest.Config, error) {
	collectLess()
	limit := poll.Limit()
	server.ControlPlaneStartTimeout, server.ControlPlaneStopTimeout = limit, limit
	server.CRDInstallOptions.MaxTime = limit
	config, err := server.Start()
	if err != nil {
		// The processes may run already, when only the CRDs were refused.
		if stopErr := server.Stop(); stopErr != nil {
			err = fmt.Errorf("%w; and to stop it: %w", err, stopErr)
		}
		return nil, fmt.Errorf("start an API server: %w", err)
	}
	config.DisableCompression = true // both are on this machine: there is no wire to save
	return config, nil
}

// collectLess has this API server and all programs that the test starts later collect
// garbage less often, unless GOGC is set: they live for seconds, for which a quarter of
// their processor time goes into what nobody will need.
var collectLess = sync.OnceFunc(func() {
	const variable = "GOGC"
	if os.Getenv(variable) == "" {
		_ = os.Setenv(variable, "400")
	}
})
