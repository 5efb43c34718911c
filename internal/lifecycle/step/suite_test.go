package step_test

import (
	"os"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv"
)

// management and other are API servers: that of the management cluster, and one of a workload
// cluster.
var management, other *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.MainWithWorkload(m, func(e, workload *testenv.Env) { management, other = e, workload }))
}
