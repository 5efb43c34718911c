package webhook

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// SetupWithManager registers every webhook with the server of the manager.
func SetupWithManager(mgr ctrl.Manager) error {
	for _, setup := range []func(ctrl.Manager) error{
		setupHostCluster, setupHostClusterTemplate,
		setupHostMachine, setupHostMachineTemplate,
		setupHostMachinePool, setupHostMachinePoolTemplate,
	} {
		if err := setup(mgr); err != nil {
			return fmt.Errorf("set up the webhooks: %w", err)
		}
	}
	return nil
}

func setupHostCluster(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostCluster{}).WithValidator(HostCluster{}).Complete()
}

func setupHostClusterTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostClusterTemplate{}).WithValidator(HostClusterTemplate{}).Complete()
}

func setupHostMachine(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachine{}).WithValidator(HostMachine{}).Complete()
}

func setupHostMachineTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachineTemplate{}).WithValidator(HostMachineTemplate{}).Complete()
}

func setupHostMachinePool(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachinePool{}).WithValidator(HostMachinePool{}).Complete()
}

func setupHostMachinePoolTemplate(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &infrav1.HostMachinePoolTemplate{}).WithValidator(HostMachinePoolTemplate{}).Complete()
}
