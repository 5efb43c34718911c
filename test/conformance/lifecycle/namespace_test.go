package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// TestNamespaceWaitsForItsGate: the deletion of a namespace does not begin while the
// deletion of a Cluster in it waits, nor while that cannot be known. After the Cluster is
// gone, the namespace goes with all that is in it.
func TestNamespaceWaitsForItsGate(t *testing.T) {
	level.Deep(t)
	t.Parallel()
	s := newStage(t)
	r := newReplica(t, s.namespace)
	s.createCluster(r)
	r.start()
	s.eventually("the program answers", r.discover)
	s.callWebhooks(r)
	policy := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "keep"},
		Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{
			Hook: lifecyclev1.BeforeClusterDelete, Steps: []lifecyclev1.Step{{Name: "go", Approval: &lifecyclev1.ApprovalStep{}}},
		}}},
	}
	s.eventually("the policy is taken", func() error { return s.Create(t.Context(), policy) })
	s.eventually("the webhooks are called", func() error {
		err := s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, client.DryRunAll)
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the deletion of the namespace answers %w", err)
		}
		return nil
	})
	s.expectNamespaceKept(apierrors.IsForbidden)

	s.beginDeletion()
	s.eventually("the deletion waits for an approval", func() error {
		if err := r.passesDeletion(t.Context(), s.cluster); err == nil {
			t.Fatal("the deletion passed")
		}
		if runs := s.runs()[policy.Name]; len(runs) != 1 || runs[0].Status.Phase != lifecyclev1.RunWaiting {
			return fmt.Errorf("the runs are %+v", runs)
		}
		return nil
	})
	s.expectNamespaceKept(apierrors.IsForbidden)
	if err := s.Delete(t.Context(), policy.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("the policy is deleted while the Cluster waits for it: %v", err)
	}
	r.end()
	s.expectNamespaceKept(func(err error) bool { return err != nil && !apierrors.IsForbidden(err) })

	r.start()
	s.eventually("the deletion passes once it is approved", func() error {
		s.decide()
		return r.passesDeletion(t.Context(), s.cluster)
	})
	s.endDeletion()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	s.eventually("the namespace is gone", func() error {
		switch err := s.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is there: %+v", namespace.Status)
	})
}

// expectNamespaceKept fails unless the deletion of the namespace is refused, as told, and
// nothing in it has changed.
func (s *stage) expectNamespaceKept(refused func(error) bool) {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.Delete(s.t.Context(), namespace); !refused(err) {
		s.t.Fatalf("the deletion of the namespace answers %v", err)
	}
	if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil || !namespace.DeletionTimestamp.IsZero() {
		s.t.Errorf("the namespace is going: %+v, %v", namespace, err)
	}
	secrets := &corev1.SecretList{}
	if err := s.List(s.t.Context(), secrets, client.InNamespace(s.namespace)); err != nil || len(secrets.Items) == 0 {
		s.t.Errorf("the Secrets of the namespace are gone: %v", err)
	}
}

// beginDeletion deletes the Cluster, which stays as long as Cluster API keeps it.
func (s *stage) beginDeletion() {
	s.t.Helper()
	s.change(func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} })
	if err := s.Delete(s.t.Context(), s.cluster.DeepCopy()); err != nil {
		s.t.Fatal(err)
	}
}

// endDeletion does what Cluster API does once all extensions let the Cluster go.
func (s *stage) endDeletion() {
	s.t.Helper()
	s.change(func(c *clusterv1.Cluster) { c.Annotations = map[string]string{runtimev1.OkToDeleteAnnotation: ""} })
	s.change(func(c *clusterv1.Cluster) { c.Finalizers = nil })
}

func (s *stage) change(how func(*clusterv1.Cluster)) {
	s.t.Helper()
	s.eventually("the Cluster is changed", func() error {
		if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(s.cluster), s.cluster); err != nil {
			return err
		}
		how(s.cluster)
		return s.Update(s.t.Context(), s.cluster)
	})
}

// passesDeletion is nil when the Cluster may be deleted.
func (r *replica) passesDeletion(ctx context.Context, cluster *clusterv1.Cluster) error {
	result, err := sdkclient.CallAll(ctx, r.caller, capi.BeforeClusterDelete, cluster, &hooksv1.BeforeClusterDeleteRequest{Cluster: *cluster})
	if err != nil {
		return err
	}
	if result.Response.RetryAfterSeconds > 0 {
		return errors.New(result.Response.Message)
	}
	return nil
}
