package manager_test

import (
	"strings"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// A phase that is misspelt would be run all the same.
func TestUnknownMigrationPhase(t *testing.T) {
	testenv.Skip(t)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	options := optionsFor(env.Namespace(t))
	options.SkipCRDMigrationPhases = []string{"StorageVersion"}
	err = manager.SetupWithManager(t.Context(), mgr, options)
	if err == nil || !strings.Contains(err.Error(), `--skip-crd-migration-phases: "StorageVersion" is not one of StorageVersionMigration, CleanupManagedFields`) {
		t.Errorf("err = %v", err)
	}
}
