package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;machinepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinepools,verbs=get;list;watch

// errNoMachineYet means that the HostMachine of a claim is not in the cache, or not yet
// with its claim: the operation of its host may be seen before.
var errNoMachineYet = errors.New("the HostMachine of the claim is not there yet")

// misuse says why the agent of a host does not get to read the Secret that its operation
// names; empty when it does. Agents execute what they read as root, and anybody who may
// make a Machine can name a Secret: it must be the bootstrap data of the machine that
// claimed the host.
func (r *SecretAccessReconciler) misuse(ctx context.Context, h *infrav1.Host, data *corev1.Secret) (string, error) {
	m := &infrav1.HostMachine{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}, m)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get HostMachine %s: %w", h.Spec.Claim.MachineName, err)
	}
	if err != nil || m.Spec.ClaimID != h.Spec.Claim.ClaimID {
		return "", errNoMachineYet
	}
	owner, err := placement.OwnerOf(ctx, r.Client, m)
	if err != nil {
		return "", err
	}
	switch {
	case owner == nil:
		return fmt.Sprintf("no Machine or MachinePool owns HostMachine %s", m.Name), nil
	case owner.BootstrapSecret != data.Name:
		return fmt.Sprintf("%s, which owns HostMachine %s, names Secret %q", owner.Description, m.Name, owner.BootstrapSecret), nil
	}
	return notBootstrapData(data, owner, h.Spec.Claim.ClusterName), nil
}

// notBootstrapData says why a Secret is not the bootstrap data of an owner; empty when it
// is. Kubeconfigs and keys of clusters have the same type. So the Secret must belong to
// the bootstrap config of the owner, as those of providers do, or, if somebody provides the
// data without a config, be labelled with the cluster and be nobody's and no key of it.
func notBootstrapData(data *corev1.Secret, owner *placement.Owner, cluster string) string {
	if data.Type != clusterv1.ClusterSecretType {
		return fmt.Sprintf("it has type %q; bootstrap data has type %q", data.Type, clusterv1.ClusterSecretType)
	}
	if config := owner.BootstrapConfig; config.IsDefined() {
		if !slices.ContainsFunc(data.OwnerReferences, func(ref metav1.OwnerReference) bool {
			version, err := schema.ParseGroupVersion(ref.APIVersion)
			return err == nil && version.Group == config.APIGroup && ref.Kind == config.Kind && ref.Name == config.Name
		}) {
			return fmt.Sprintf("it is not owned by %s %s, the bootstrap config of %s", config.Kind, config.Name, owner.Description)
		}
		return ""
	}
	switch controller := metav1.GetControllerOf(data); {
	case controller != nil:
		return fmt.Sprintf("it belongs to %s %s, and %s has no bootstrap config", controller.Kind, controller.Name, owner.Description)
	case secret.HasPurposeSuffix(data.Name):
		return "its name is one of a kubeconfig or of keys of a cluster: give the bootstrap data another one"
	case data.Labels[clusterv1.ClusterNameLabel] != cluster:
		return fmt.Sprintf("it lacks the label %s=%s, which bootstrap data without a bootstrap config must have", clusterv1.ClusterNameLabel, cluster)
	}
	return ""
}
