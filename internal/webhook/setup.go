package webhook

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/webhook/conversion"
)

// Options of the webhooks.
type Options struct {
	// NoHostExtensionConfigs has new HostExtensionConfigs refused: the feature gate is off.
	NoHostExtensionConfigs bool
}

// SetupWithManager registers every webhook with the server of the manager: the
// validators, and /convert for all kinds. The manager's scheme must know v1beta1
// and v1beta2.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	for _, setup := range []func(ctrl.Manager) error{
		setupHost,
		setupHostCluster, setupHostClusterTemplate,
		setupHostMachine, setupHostMachineTemplate,
		setupHostMachinePool, setupHostMachinePoolTemplate,
		o.setupHostExtensionConfig,
	} {
		if err := setup(mgr); err != nil {
			return fmt.Errorf("set up the webhooks: %w", err)
		}
	}
	return nil
}

// Hosts are checked in the CRD alone.
func setupHost(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.Host{}).WithConverter(conversion.Host).Complete()
}

func setupHostCluster(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostCluster{}).WithValidator(HostCluster{}).WithConverter(conversion.HostCluster).Complete()
}

func setupHostClusterTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostClusterTemplate{}).WithValidator(HostClusterTemplate{}).WithConverter(conversion.HostClusterTemplate).Complete()
}

func setupHostMachine(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachine{}).WithValidator(HostMachine{}).WithConverter(conversion.HostMachine).Complete()
}

func setupHostMachineTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachineTemplate{}).WithValidator(HostMachineTemplate{}).WithConverter(conversion.HostMachineTemplate).Complete()
}

func setupHostMachinePool(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachinePool{}).WithValidator(HostMachinePool{}).WithConverter(conversion.HostMachinePool).Complete()
}

func setupHostMachinePoolTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachinePoolTemplate{}).WithValidator(HostMachinePoolTemplate{}).WithConverter(conversion.HostMachinePoolTemplate).Complete()
}
