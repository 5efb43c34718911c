package manager_test

import (
	"os"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	os.Exit(testenv.Main(m, manager.AddToScheme, func(e *testenv.Env) error { env = e; return nil }))
}
