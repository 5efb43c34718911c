package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// bare is a namespace whose policy guards Clusters without a topology, and an engine.
type bare struct {
	t         *testing.T
	namespace string
	// tenant may write Clusters, and import no runs.
	tenant client.Client
}

func newBare(t *testing.T) *bare {
	t.Helper()
	testenv.Skip(t)
	b := &bare{t: t, namespace: env.Namespace(t)}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"lifecycle.slipway.dev/enforcement":"All"}}}`))
	if err := env.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, label); err != nil {
		t.Fatal(err)
	}
	b.tenant = b.user("tenant", "create", "get", "patch", "delete")
	ask := []lifecyclev1.Step{{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "may it?"}}}
	policy := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "guard"},
		Spec: lifecyclev1.LifecyclePolicySpec{Enforcement: lifecyclev1.EnforcementAll, Hooks: []lifecyclev1.HookPolicy{
			{Hook: lifecyclev1.BeforeClusterCreate, Steps: ask}, {Hook: lifecyclev1.BeforeClusterDelete, Steps: ask},
		}},
	}
	if err := env.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	startEngine(t, b.namespace).callWebhooks(t, b.namespace)
	poll.Until(t, "the webhook is called", func() error { return refused(t, b.namespace) })
	return b
}

// user may do with Clusters of the namespace what the verbs say.
func (b *bare) user(name string, verbs ...string) client.Client {
	b.t.Helper()
	env.GrantIn(b.t, name, b.namespace, rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: verbs})
	c, err := client.New(env.As(name), client.Options{Scheme: env.Scheme})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bare) cluster(name string, change func(*clusterv1.Cluster)) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: name}
	cluster.Spec.Paused = ptr.To(true)
	if change != nil {
		change(cluster)
	}
	return cluster
}

func (b *bare) create(c client.Client, cluster *clusterv1.Cluster) {
	b.t.Helper()
	if err := c.Create(b.t.Context(), cluster); err != nil {
		b.t.Fatal(err)
	}
}

// patch changes the Cluster as it is now.
func (b *bare) patch(c client.Client, cluster *clusterv1.Cluster, change func(*clusterv1.Cluster)) error {
	b.t.Helper()
	if err := env.Client.Get(b.t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		b.t.Fatal(err)
	}
	before := cluster.DeepCopy()
	change(cluster)
	return c.Patch(b.t.Context(), cluster, client.MergeFrom(before))
}

// refuses fails unless the error is a Forbidden that tells all of it.
func (b *bare) refuses(err error, tells ...string) {
	b.t.Helper()
	if !apierrors.IsForbidden(err) || slices.ContainsFunc(tells, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
		b.t.Errorf("got %v, want it forbidden and to tell %q", err, tells)
	}
}

func (b *bare) allows(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Errorf("want it to pass: %v", err)
	}
}

// run waits for one of an attempt.
func (b *bare) run(cluster *clusterv1.Cluster, hook lifecyclev1.HookName, attempt int32, check func(*lifecyclev1.LifecycleRun) bool) *lifecyclev1.LifecycleRun {
	b.t.Helper()
	var found *lifecyclev1.LifecycleRun
	poll.Until(b.t, fmt.Sprintf("run %d of %s", attempt, hook), func() error {
		runs := &lifecyclev1.LifecycleRunList{}
		if err := env.Client.List(b.t.Context(), runs, client.InNamespace(b.namespace)); err != nil {
			return err
		}
		for i := range runs.Items {
			run := &runs.Items[i]
			if run.Spec.ClusterName == cluster.Name && run.Spec.Hook == hook && run.Spec.Attempt == attempt && check(run) {
				found = run
				return nil
			}
		}
		return fmt.Errorf("the runs are %+v", runs.Items)
	})
	return found
}

func (b *bare) approve(run *lifecyclev1.LifecycleRun) {
	b.t.Helper()
	before := run.DeepCopy()
	run.Annotations = map[string]string{lifecyclev1.ApproveAnnotation: "go: agreed"}
	if err := env.Client.Patch(b.t.Context(), run, client.MergeFrom(before)); err != nil {
		b.t.Fatal(err)
	}
}

// told waits until the condition LifecycleReady of the Cluster tells something.
func (b *bare) told(cluster *clusterv1.Cluster, part string) {
	b.t.Helper()
	poll.Until(b.t, "the Cluster tells "+part, func() error {
		if err := env.Client.Get(b.t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(cluster.Status.Conditions, lifecyclev1.ClusterLifecycleReadyCondition)
		if ready == nil || !strings.Contains(ready.Message, part) {
			return fmt.Errorf("LifecycleReady is %+v", ready)
		}
		return nil
	})
}

func waiting(run *lifecyclev1.LifecycleRun) bool { return run.Status.Phase == lifecyclev1.RunWaiting }
func unpause(c *clusterv1.Cluster)               { c.Spec.Paused = ptr.To(false) }
func classify(c *clusterv1.Cluster) {
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "slipway"}, Version: "v1.36.3"}
}
func pause(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }
func requestDeletion(c *clusterv1.Cluster) {
	c.Annotations = map[string]string{lifecyclev1.RequestDeletionAnnotation: "its work is done"}
}

// Cluster API calls no hooks for a Cluster without a topology: it is made paused, and is
// neither unpaused nor deleted before the steps of a policy of enforcement All are done,
// whoever asks.
func TestAClusterWithoutATopologyIsHeldBack(t *testing.T) {
	b := newBare(t)
	b.refuses(env.Client.Create(t.Context(), b.cluster("prod", unpause)), "LifecyclePolicy guard", "create it with spec.paused: true")
	cluster := b.cluster("prod", nil)
	b.create(b.tenant, cluster)
	run := b.run(cluster, lifecyclev1.BeforeClusterCreate, 1, waiting)
	for _, c := range []client.Client{env.Client, b.tenant} {
		b.refuses(b.patch(c, cluster, unpause), "spec.paused: ", "step go: waits since", "lifecycle.slipway.dev/approve=go")
		// Core would call no hook for it any more, and nobody would ask when it is unpaused.
		b.refuses(b.patch(c, cluster, classify), "spec.topology: ", "step go: waits since")
	}
	b.told(cluster, "for approval (may it?)")
	b.approve(run)
	b.told(cluster, `the Cluster may be made: kubectl patch cluster -n `+b.namespace+` prod --type merge -p '{"spec":{"paused":false}}'`)
	b.allows(b.patch(b.tenant, cluster, unpause))

	// One that is there is paused and unpaused as its author likes.
	before := cluster.DeepCopy()
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if err := env.Client.Status().Patch(t.Context(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*clusterv1.Cluster){pause, unpause} {
		b.allows(b.patch(b.tenant, cluster, change))
	}

	remove := func(c client.Client) error { return c.Delete(t.Context(), cluster) }
	for _, c := range []client.Client{env.Client, b.tenant} {
		b.refuses(remove(c), "LifecyclePolicy guard", "kubectl annotate cluster -n "+b.namespace+" prod "+lifecyclev1.RequestDeletionAnnotation+"=REASON")
	}
	b.refuses(b.patch(b.user("writer", "patch"), cluster, requestDeletion), "may not delete clusters")
	b.allows(b.patch(b.tenant, cluster, requestDeletion))
	run = b.run(cluster, lifecyclev1.BeforeClusterDelete, 1, waiting)
	b.refuses(remove(b.tenant), "step go: waits since")
	b.approve(run)
	b.told(cluster, "the Cluster may be deleted: kubectl delete cluster -n "+b.namespace+" prod")

	// What was approved does not count when it is asked for again.
	b.allows(b.patch(b.tenant, cluster, func(c *clusterv1.Cluster) { c.Annotations = nil }))
	b.run(cluster, lifecyclev1.BeforeClusterDelete, 1, func(run *lifecyclev1.LifecycleRun) bool {
		return strings.Contains(run.Spec.Cancelled, "not asked for any more")
	})
	b.refuses(remove(b.tenant), "REASON")

	// While it is paused nothing begins, as it may be on its way by clusterctl move.
	b.allows(b.patch(b.tenant, cluster, func(c *clusterv1.Cluster) { pause(c); requestDeletion(c) }))
	b.refuses(remove(b.tenant), "its steps have not begun", "and that the Cluster is not paused")
	b.allows(b.patch(b.tenant, cluster, unpause))
	run = b.run(cluster, lifecyclev1.BeforeClusterDelete, 2, waiting)
	b.told(cluster, "for approval (may it?)") // until then it may be as after the first approval
	b.approve(run)
	b.told(cluster, "the Cluster may be deleted")
	b.allows(remove(b.tenant))
}

// clusterctl move makes Clusters paused, with the endpoint that they have, and unpauses
// them; where they come from it deletes them. Who moves may import runs, others get past
// nothing that way.
func TestMovedClustersAreNotHeldBack(t *testing.T) {
	b := newBare(t)
	moved := func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	}
	for name, mover := range map[string]bool{"prod": true, "forged": false} {
		cluster := b.cluster(name, moved)
		b.create(b.tenant, cluster)
		if !mover {
			b.refuses(b.patch(b.tenant, cluster, unpause), "counts as one that was made elsewhere", "verb import")
			continue
		}
		b.allows(b.patch(env.Client, cluster, unpause))
	}
	// A backup is restored as it was: not paused.
	restored := func(name string) *clusterv1.Cluster {
		return b.cluster(name, func(c *clusterv1.Cluster) { moved(c); unpause(c) })
	}
	b.refuses(b.tenant.Create(t.Context(), restored("lost")), "create it with spec.paused: true")
	b.create(env.Client, restored("lost"))
	b.refuses(env.Client.Create(t.Context(), b.cluster("new", unpause)), "create it with spec.paused: true")

	leave := func(c *clusterv1.Cluster) {
		pause(c)
		c.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	cluster := b.cluster("prod", nil)
	b.allows(b.patch(b.tenant, cluster, leave))
	b.refuses(b.tenant.Delete(t.Context(), cluster), "REASON")
	b.allows(env.Client.Delete(t.Context(), cluster))
	runs := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(t.Context(), runs, client.InNamespace(b.namespace)); err != nil || len(runs.Items) > 0 {
		t.Errorf("runs of Clusters that arrived, or left: %+v, %v", runs.Items, err)
	}
}
