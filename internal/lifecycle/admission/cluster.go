package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// clusterKeeper holds back creation and deletion of Clusters without a topology, for
// which Cluster API calls no hooks, by policies of enforcement All. Who wants one makes it
// paused, or requests its deletion by an annotation: then the steps are executed, and when
// they are done it may be unpaused, or deleted.
//
// It reads live: what it does not find lets pass. When it is asked is in
// config/lifecycle/webhook/cluster_webhook.yaml.
type clusterKeeper struct {
	*deletionGates
	access *access
	now    func() time.Time
}

// ValidateCreate implements admission.Validator.
func (k clusterKeeper) ValidateCreate(ctx context.Context, cluster *clusterv1.Cluster) (ctrladmission.Warnings, error) {
	if k.passes(cluster) {
		return nil, nil
	}
	if err := k.authorizeRequest(ctx, nil, cluster); err != nil {
		return nil, err
	}
	if ptr.Deref(cluster.Spec.Paused, false) {
		return nil, nil
	}
	guards, err := k.guards(ctx, lifecyclev1.BeforeClusterCreate, cluster)
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	if imports, err := k.madeElsewhere(ctx, cluster); err != nil || imports {
		return nil, err
	}
	return nil, forbid(cluster, "LifecyclePolicy %s has steps before it is made, and it has no spec.topology: create it with spec.paused: true, and set that to false when its condition %s says so",
		policyNames(guards), lifecyclev1.ClusterLifecycleReadyCondition)
}

// ValidateUpdate implements admission.Validator. Who unpauses a Cluster whose creation has
// not begun makes it. So does who gives it a topology: nobody asks here about it any more,
// and core calls no BeforeClusterCreate, as it has references.
func (k clusterKeeper) ValidateUpdate(ctx context.Context, before, cluster *clusterv1.Cluster) (ctrladmission.Warnings, error) {
	at := "spec.paused"
	if ptr.Deref(cluster.Spec.Paused, false) {
		at = "spec.topology"
	}
	made := ptr.Deref(before.Spec.Paused, false) && (!ptr.Deref(cluster.Spec.Paused, false) || cluster.Spec.Topology.IsDefined())
	cluster = cluster.DeepCopy()
	cluster.Spec.Topology = before.Spec.Topology
	if k.passes(cluster) {
		return nil, nil
	}
	if err := k.authorizeRequest(ctx, before, cluster); err != nil {
		return nil, err
	}
	if !made || plan.Provisioned(before) {
		return nil, nil
	}
	guards, err := k.guards(ctx, lifecyclev1.BeforeClusterCreate, cluster)
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	waits, err := k.waits(ctx, lifecyclev1.BeforeClusterCreate, cluster, guards)
	if err != nil || waits == "" {
		return nil, err
	}
	if imports, err := k.madeElsewhere(ctx, before); err != nil || imports {
		return nil, err
	}
	return nil, forbid(cluster, "%s: %s", at, waits)
}

// ValidateDelete implements admission.Validator. The deletion of a namespace is held back
// as a whole, or not at all: in one that goes no step can be executed any more.
func (k clusterKeeper) ValidateDelete(ctx context.Context, cluster *clusterv1.Cluster) (ctrladmission.Warnings, error) {
	if k.passes(cluster) {
		return nil, nil
	}
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an admission request in the context: %v", err))
	}
	if request.UserInfo.Username == namespaceController {
		return nil, nil
	}
	guards, err := k.guards(ctx, lifecyclev1.BeforeClusterDelete, cluster)
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	if _, moved := cluster.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved && ptr.Deref(cluster.Spec.Paused, false) {
		imports, err := k.imports(ctx, cluster)
		if err != nil || imports {
			return nil, err
		}
	}
	if !plan.Asks(lifecyclev1.BeforeClusterDelete, cluster) {
		return nil, forbid(cluster, "LifecyclePolicy %s has steps before it is deleted, and it has no spec.topology: ask for them by kubectl annotate cluster -n %s %s %s=REASON, and delete it when its condition %s says so",
			policyNames(guards), cluster.Namespace, cluster.Name, lifecyclev1.RequestDeletionAnnotation, lifecyclev1.ClusterLifecycleReadyCondition)
	}
	waits, err := k.waits(ctx, lifecyclev1.BeforeClusterDelete, cluster, guards)
	if err != nil || waits == "" {
		return nil, err
	}
	return nil, forbid(cluster, "%s", waits)
}

// namespaceController deletes what is in a namespace that goes.
const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

// passes says whether a Cluster is none that is held back here.
func (k clusterKeeper) passes(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.Topology.IsDefined() || !cluster.DeletionTimestamp.IsZero() || !k.watches(cluster.Namespace)
}

// guards are the policies that block a Cluster at a hook until their steps are done.
// One of which that cannot be known is among them.
func (k clusterKeeper) guards(ctx context.Context, hook lifecyclev1.HookName, cluster *clusterv1.Cluster) ([]*lifecyclev1.LifecyclePolicy, error) {
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := k.reader.List(ctx, policies, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	var guards []*lifecyclev1.LifecyclePolicy
	for i := range policies.Items {
		p := &policies.Items[i]
		if p.Spec.Mode == lifecyclev1.ModeAudit || !p.DeletionTimestamp.IsZero() || len(p.Steps(hook)) == 0 || !plan.Enforces(p, hook, cluster) {
			continue
		}
		if mismatch, err := k.matcher.Match(ctx, p, cluster); err != nil || mismatch == expression.NoMismatch {
			guards = append(guards, p)
		}
	}
	return guards, nil
}

// waits tells what the first of the policies waits for whose steps are not done; empty
// when all are.
func (k clusterKeeper) waits(ctx context.Context, hook lifecyclev1.HookName, cluster *clusterv1.Cluster, guards []*lifecyclev1.LifecyclePolicy) (string, error) {
	runs := &lifecyclev1.LifecycleRunList{}
	if err := k.reader.List(ctx, runs, client.InNamespace(cluster.Namespace)); err != nil {
		return "", fmt.Errorf("list LifecycleRuns: %w", err)
	}
	for _, p := range guards {
		run := plan.Newest(runs.Items, func(run *lifecyclev1.LifecycleRun) bool {
			return run.Spec.PolicyName == p.Name && run.Spec.Hook == hook && plan.OwnerUID(run) == cluster.UID
		})
		if run == nil && hook == lifecyclev1.BeforeClusterCreate && !cluster.Spec.ControlPlaneEndpoint.IsZero() {
			return fmt.Sprintf("LifecyclePolicy %s: with spec.controlPlaneEndpoint the Cluster counts as one that was made elsewhere, which who moves Clusters may unpause (verb %s on lifecycleruns); one that is new leaves the endpoint to its infrastructure", p.Name, importVerb), nil
		}
		if run == nil || !plan.Counts(run, p) {
			unpaused := ""
			if hook == lifecyclev1.BeforeClusterDelete && !plan.Waits(cluster) {
				unpaused = " and that the Cluster is not paused"
			}
			return fmt.Sprintf("LifecyclePolicy %s: its steps have not begun; if it stays so, see that slipway-lifecycle runs%s, and kubectl describe lifecyclepolicy -n %s %s", p.Name, unpaused, p.Namespace, p.Name), nil
		}
		if blocks, message := plan.Blocks(run, k.now()); blocks {
			return message, nil
		}
	}
	return "", nil
}

// authorizeRequest lets nobody ask for a deletion who may not delete the Cluster: what is
// done before it has effects.
func (k clusterKeeper) authorizeRequest(ctx context.Context, before, cluster *clusterv1.Cluster) error {
	if !requests(cluster) || before != nil && requests(before) {
		return nil
	}
	return k.access.require(ctx, field.NewPath("metadata", "annotations").Key(lifecyclev1.RequestDeletionAnnotation), authorizationv1.ResourceAttributes{
		Namespace: cluster.Namespace, Verb: "delete", Group: clusterv1.GroupVersion.Group, Resource: "clusters", Name: cluster.Name,
	})
}

func requests(cluster *clusterv1.Cluster) bool {
	_, found := cluster.Annotations[lifecyclev1.RequestDeletionAnnotation]
	return found
}

// madeElsewhere says whether a Cluster was made in another management cluster, or before it
// was lost with this one: it has an endpoint, and who moves or restores says so.
func (k clusterKeeper) madeElsewhere(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if cluster.Spec.ControlPlaneEndpoint.IsZero() {
		return false, nil
	}
	return k.imports(ctx, cluster)
}

// imports says whether the user may make runs with what they record, as clusterctl move
// does: such a user can let any Cluster pass.
func (k clusterKeeper) imports(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	return k.access.allowed(ctx, authorizationv1.ResourceAttributes{
		Namespace: cluster.Namespace, Verb: importVerb, Group: lifecyclev1.GroupVersion.Group, Resource: "lifecycleruns",
	})
}

func forbid(cluster *clusterv1.Cluster, format string, args ...any) error {
	return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), cluster.Name, fmt.Errorf(format, args...))
}

func policyNames(policies []*lifecyclev1.LifecyclePolicy) string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}
