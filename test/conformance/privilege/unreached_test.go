package privilege

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// unreached has nobody answer the engine's webhooks: a namespace with a policy that may hold a
// deletion back stays, all others, the engine's own among them, can go. Clusters without a
// topology are held back where an administrator wants it, and nothing else of Clusters.
func (e *engine) unreached(t *testing.T) {
	others := []string{"team-b", engineNamespace, "slipway-system", "capi-system", "cert-manager"}
	for _, name := range append([]string{"team-a"}, others...) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "team-a" {
			namespace.Labels = map[string]string{
				lifecyclev1.EnforcementLabel: string(lifecyclev1.EnforcementAll), lifecyclev1.DeletionGuardLabel: "",
			}
		}
		if err := client.IgnoreAlreadyExists(e.Client.Create(t.Context(), namespace)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"team-a", "team-b"} {
		for _, cluster := range []*clusterv1.Cluster{bare(name, "runs"), paused(bare(name, "waits")), classed(name, "of-a-class")} {
			e.eventually("Cluster "+cluster.Name+" is made", func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(e.Client.Create(ctx, cluster.DeepCopy()))
			})
		}
	}
	for _, name := range []string{"slipway-lifecycle-deletion-validating-webhook-configuration", "slipway-lifecycle-cluster-validating-webhook-configuration"} {
		webhooks := &admissionv1.ValidatingWebhookConfiguration{}
		if err := e.Client.Get(t.Context(), client.ObjectKey{Name: name}, webhooks); err != nil {
			t.Fatal(err)
		}
		for i := range webhooks.Webhooks {
			webhooks.Webhooks[i].ClientConfig.URL = ptr.To("https://127.0.0.1:1/")
		}
		if err := e.Client.Update(t.Context(), webhooks); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(ctx context.Context, name string) error {
		return e.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.DryRunAll)
	}
	e.eventually("namespace team-a stays", func(ctx context.Context) error {
		if err := remove(ctx, "team-a"); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("its deletion answers %w", err)
		}
		return nil
	})
	for _, name := range others {
		if err := remove(t.Context(), name); err != nil {
			t.Errorf("namespace %s cannot be deleted: %v", name, err)
		}
	}
	e.clustersUnreached(t)
}

// clustersUnreached tries by dry run what may be done with Clusters.
func (e *engine) clustersUnreached(t *testing.T) {
	create := func(cluster *clusterv1.Cluster) error { return e.Client.Create(t.Context(), cluster, client.DryRunAll) }
	remove := func(cluster *clusterv1.Cluster) error { return e.Client.Delete(t.Context(), cluster, client.DryRunAll) }
	patch := func(cluster *clusterv1.Cluster, data string) error {
		return e.Client.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(data)), client.DryRunAll)
	}
	const (
		label   = `{"metadata":{"labels":{"a":"b"}}}`
		unpause = `{"spec":{"paused":null}}`
		class   = `{"spec":{"topology":{"classRef":{"name":"class"},"version":"v1.36.3"}}}`
		request = `{"metadata":{"annotations":{"` + lifecyclev1.RequestDeletionAnnotation + `":"why"}}}`
	)
	for _, in := range []string{"team-a", "team-b"} {
		for what, try := range map[string]struct {
			err  error
			held bool
		}{
			"made":                            {create(bare(in, "new")), true},
			"made paused":                     {create(paused(bare(in, "new"))), true},
			"deleted":                         {remove(bare(in, "runs")), true},
			"unpaused":                        {patch(bare(in, "waits"), unpause), true},
			"asked to be deleted":             {patch(bare(in, "runs"), request), true},
			"made of a class while it waits":  {patch(bare(in, "waits"), class), true},
			"given a class":                   {patch(bare(in, "runs"), class), false},
			"changed":                         {patch(bare(in, "runs"), label), false},
			"paused":                          {patch(bare(in, "runs"), `{"spec":{"paused":true}}`), false},
			"changed while it waits":          {patch(bare(in, "waits"), label), false},
			"made of a class":                 {create(classed(in, "new")), false},
			"unpaused, of a class":            {patch(classed(in, "of-a-class"), unpause), false},
			"deleted, of a class":             {remove(classed(in, "of-a-class")), false},
			"asked to be deleted, of a class": {patch(classed(in, "of-a-class"), request), false},
		} {
			held := apierrors.IsInternalError(try.err) && strings.Contains(try.err.Error(), "failed calling webhook")
			if want := try.held && in == "team-a"; held != want || !held && try.err != nil {
				t.Errorf("a Cluster of %s is %s: %v, want it held back: %t", in, what, try.err, want)
			}
		}
	}
}

func bare(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: name}},
	}
}

func paused(cluster *clusterv1.Cluster) *clusterv1.Cluster {
	cluster.Spec.Paused = ptr.To(true)
	return cluster
}

func classed(namespace, name string) *clusterv1.Cluster {
	return paused(&clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: version}},
	})
}
