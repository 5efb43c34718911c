package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
)

// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// deletionGates finds the Clusters whose deletion waits for a policy. It reads past the
// cache: what it does not find goes. The API server asks it about policies and Namespaces
// that may hold a Cluster back, and no others, as config/lifecycle/webhook/deletion_webhook.yaml
// says.
type deletionGates struct {
	// namespace is the only one that is watched, and may be read; empty for all. Nothing is
	// held back elsewhere.
	namespace string
	reader    client.Reader
	matcher   expression.Matcher
}

// held names the Clusters of the policy's namespace whose deletion, now or later, waits for
// the policy. One that Cluster API was told to delete already is none of them; nor is
// one that nobody asks about.
func (g *deletionGates) held(ctx context.Context, p *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) []string {
	if !policy.HoldsDeletions(p) {
		return nil
	}
	var held []string
	for i := range clusters {
		cluster := &clusters[i]
		_, passed := cluster.Annotations[runtimev1.OkToDeleteAnnotation]
		// Without a topology, a deletion that has begun has passed.
		passed = passed || !cluster.Spec.Topology.IsDefined() && !cluster.DeletionTimestamp.IsZero()
		if passed || !plan.Enforces(p, lifecyclev1.BeforeClusterDelete, cluster) {
			continue
		}
		// A policy of which this cannot be known holds the Cluster back.
		if mismatch, err := g.matcher.Match(ctx, p, cluster); err != nil || mismatch == expression.NoMismatch {
			held = append(held, cluster.Name)
		}
	}
	return held
}

func (g *deletionGates) watches(namespace string) bool {
	return g.namespace == "" || g.namespace == namespace
}

func (g *deletionGates) clusters(ctx context.Context, namespace string) ([]clusterv1.Cluster, error) {
	clusters := &clusterv1.ClusterList{}
	if err := g.reader.List(ctx, clusters, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Clusters: %w", err)
	}
	return clusters.Items, nil
}

// keepPolicy refuses to delete a policy that a Cluster's deletion waits for: whoever
// deletes everything there is would else delete the gate first. clusterctl move may take
// it away from where the Cluster was.
func (g *deletionGates) keepPolicy(ctx context.Context, p *lifecyclev1.LifecyclePolicy) error {
	if _, moved := p.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || !g.watches(p.Namespace) {
		return nil
	}
	clusters, err := g.clusters(ctx, p.Namespace)
	if err != nil {
		return err
	}
	held := g.held(ctx, p, clusters)
	if len(held) == 0 {
		return nil
	}
	return apierrors.NewForbidden(lifecyclev1.GroupVersion.WithResource("lifecyclepolicies").GroupResource(), p.Name,
		fmt.Errorf("the deletion of Cluster %s waits for it (BeforeClusterDelete); delete that first, or give the policy up: set spec.mode to Audit, then delete it", strings.Join(held, ", ")))
}

// namespaceKeeper refuses to delete a namespace with a Cluster whose deletion waits for a
// policy: all of the namespace, Machines and kubeconfigs among it, is deleted at once, so
// that nothing could be done before.
type namespaceKeeper struct{ *deletionGates }

// ValidateDelete implements admission.Validator.
func (k namespaceKeeper) ValidateDelete(ctx context.Context, namespace *corev1.Namespace) (ctrladmission.Warnings, error) {
	if !k.watches(namespace.Name) {
		return nil, nil
	}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := k.reader.List(ctx, policies, client.InNamespace(namespace.Name)); err != nil {
		return nil, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	clusters, err := k.clusters(ctx, namespace.Name)
	if err != nil {
		return nil, err
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		if held := k.held(ctx, p, clusters); len(held) > 0 {
			return nil, apierrors.NewForbidden(corev1.Resource("namespaces"), namespace.Name,
				fmt.Errorf("LifecyclePolicy %s holds back the deletion of Cluster %s, and the namespace would take all with it at once; delete the Cluster first (kubectl delete cluster -n %s %s), or give the policy up: set its spec.mode to Audit",
					p.Name, strings.Join(held, ", "), namespace.Name, strings.Join(held, " ")))
		}
	}
	return nil, nil
}

// ValidateCreate implements admission.Validator. It is not called.
func (namespaceKeeper) ValidateCreate(context.Context, *corev1.Namespace) (ctrladmission.Warnings, error) {
	return nil, nil
}

// ValidateUpdate implements admission.Validator. It is not called.
func (namespaceKeeper) ValidateUpdate(context.Context, *corev1.Namespace, *corev1.Namespace) (ctrladmission.Warnings, error) {
	return nil, nil
}
