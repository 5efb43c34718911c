package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/controllers/crdmigrator"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions;customresourcedefinitions/status,resourceNames=hosts.infrastructure.slipway.dev;hostclusters.infrastructure.slipway.dev;hostclustertemplates.infrastructure.slipway.dev;hostmachines.infrastructure.slipway.dev;hostmachinetemplates.infrastructure.slipway.dev;hostmachinepools.infrastructure.slipway.dev;hostmachinepooltemplates.infrastructure.slipway.dev,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostclustertemplates;hostmachinetemplates;hostmachinepooltemplates,verbs=get;list;patch

// migrated are the kinds with more than one version. The markers above name their
// CRDs. Status is written where there is one, past the webhooks, which could refuse an
// object that an earlier release took. Objects are read past the cache: that of a
// manager with --namespace holds only some of them.
var migrated = map[client.Object]crdmigrator.ByObjectConfig{
	&infrav1.Host{}:                    {UseStatusForStorageVersionMigration: true},
	&infrav1.HostCluster{}:             {UseStatusForStorageVersionMigration: true},
	&infrav1.HostClusterTemplate{}:     {},
	&infrav1.HostMachine{}:             {UseStatusForStorageVersionMigration: true},
	&infrav1.HostMachineTemplate{}:     {UseStatusForStorageVersionMigration: true},
	&infrav1.HostMachinePool{}:         {UseStatusForStorageVersionMigration: true},
	&infrav1.HostMachinePoolTemplate{}: {},
}

// migrationPhases can be left out by --skip-crd-migration-phases.
var migrationPhases = []string{string(crdmigrator.StorageVersionMigrationPhase), string(crdmigrator.CleanupManagedFieldsPhase)}

// setupMigration adds upstream's controller that brings stored objects to the storage
// version of their CRD and forgets versions that are not served any more, so that a
// later release can drop them. clusterctl does not. One CRD at a time: a management
// cluster with thousands of Hosts has other things to do.
func setupMigration(ctx context.Context, mgr ctrl.Manager, o Options) error {
	var skip []crdmigrator.Phase
	for _, phase := range o.SkipCRDMigrationPhases {
		if !slices.Contains(migrationPhases, phase) {
			return fmt.Errorf("--skip-crd-migration-phases: %q is not one of %s", phase, strings.Join(migrationPhases, ", "))
		}
		skip = append(skip, crdmigrator.Phase(phase))
	}
	return (&crdmigrator.CRDMigrator{
		Client:                 mgr.GetClient(),
		APIReader:              mgr.GetAPIReader(),
		SkipCRDMigrationPhases: skip,
		Config:                 migrated,
	}).SetupWithManager(ctx, mgr, concurrency(1, o))
}
