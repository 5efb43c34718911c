package step_test

import (
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// management and other are API servers: that of the management cluster, and one of a workload
// cluster.
var management, other *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.MainWithWorkload(m, func(e, workload *testenv.Env) { management, other = e, workload }))
}

// newEnv is what steps work with, by a client of the management cluster.
func newEnv(c client.Client) *step.Env {
	return &step.Env{Cache: c, Management: c, Config: management.Config, Workload: workload.New(management.Client, "slipway-lifecycle"), UserAgent: "slipway-lifecycle"}
}

// execute makes one attempt.
func execute(t *testing.T, env *step.Env, in step.Input) (step.Result, error) {
	t.Helper()
	in.Env = env
	return step.Of(in.Step).Execute(t.Context(), in)
}
