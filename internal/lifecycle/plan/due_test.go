package plan_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

func TestNotDue(t *testing.T) {
	const old, wanted = "v1.35.4", "v1.36.3"
	type change = func(*clusterv1.Cluster)
	pending := func(hooks ...string) change {
		return func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: strings.Join(hooks, ",")}
		}
	}
	initialized := func(c *clusterv1.Cluster) {
		pending("AfterControlPlaneInitialized")(c)
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue}}
	}
	created := func(c *clusterv1.Cluster) {
		c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "HostCluster", Name: "edge"}
	}
	of := func(versions ...string) change {
		return func(c *clusterv1.Cluster) {
			c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
			for _, v := range versions {
				c.Status.ControlPlane.Versions = append(c.Status.ControlPlane.Versions, clusterv1.StatusVersion{Version: v})
			}
		}
	}
	deleting := func(c *clusterv1.Cluster) { c.DeletionTimestamp = ptr.To(metav1.NewTime(start)) }
	passed := func(c *clusterv1.Cluster) {
		deleting(c)
		c.Annotations = map[string]string{runtimev1.OkToDeleteAnnotation: ""}
	}
	upgrade := lifecyclev1.RunRequest{FromKubernetesVersion: old, ToKubernetesVersion: wanted}
	after := lifecyclev1.RunRequest{KubernetesVersion: wanted}
	step := lifecyclev1.RunRequest{KubernetesVersion: old}
	beyond := lifecyclev1.RunRequest{FromKubernetesVersion: old, ToKubernetesVersion: "v1.37.0"}
	for _, c := range []struct {
		name    string
		hook    lifecyclev1.HookName
		request lifecyclev1.RunRequest
		cluster change
		tells   string
	}{
		{"nothing is there", lifecyclev1.BeforeClusterCreate, lifecyclev1.RunRequest{}, nil, ""},
		{"something is there", lifecyclev1.BeforeClusterCreate, lifecyclev1.RunRequest{}, created, "created already"},
		{"created while it is deleted", lifecyclev1.BeforeClusterCreate, lifecyclev1.RunRequest{}, deleting, "its deletion has begun: true"},
		{"initialized", lifecyclev1.AfterControlPlaneInitialized, lifecyclev1.RunRequest{}, initialized, ""},
		{"not initialized", lifecyclev1.AfterControlPlaneInitialized, lifecyclev1.RunRequest{}, pending("AfterControlPlaneInitialized"), "is not initialized"},
		{"initialized long ago", lifecyclev1.AfterControlPlaneInitialized, lifecyclev1.RunRequest{}, func(c *clusterv1.Cluster) { initialized(c); c.Annotations = nil }, "not among its pending hooks"},
		{"upgrade", lifecyclev1.BeforeClusterUpgrade, upgrade, nil, ""},
		{"upgrade of a known version", lifecyclev1.BeforeClusterUpgrade, upgrade, of(old), ""},
		{"upgrade at rest", lifecyclev1.BeforeClusterUpgrade, upgrade, of(wanted), "is not of v1.35.4"},
		{"upgrade of another version", lifecyclev1.BeforeClusterUpgrade, upgrade, of("v1.34.1"), "is not of v1.35.4"},
		{"upgrade within a minor version", lifecyclev1.BeforeClusterUpgrade, lifecyclev1.RunRequest{FromKubernetesVersion: "v1.36.2", ToKubernetesVersion: wanted}, of("v1.36.2"), ""},
		{"upgrade to itself", lifecyclev1.BeforeClusterUpgrade, lifecyclev1.RunRequest{FromKubernetesVersion: wanted, ToKubernetesVersion: wanted}, nil, "no other version"},
		{"upgrade to what nobody asked for", lifecyclev1.BeforeClusterUpgrade, beyond, nil, "asks for v1.36.3, not v1.37.0"},
		{"upgrade that has begun", lifecyclev1.BeforeClusterUpgrade, upgrade, pending("AfterClusterUpgrade"), "has begun already"},
		{"upgrade of nonsense", lifecyclev1.BeforeClusterUpgrade, lifecyclev1.RunRequest{FromKubernetesVersion: "x", ToKubernetesVersion: wanted}, nil, "does not lead to"},
		{"control plane", lifecyclev1.BeforeControlPlaneUpgrade, upgrade, pending("AfterClusterUpgrade"), ""},
		{"control plane, on the way", lifecyclev1.BeforeControlPlaneUpgrade, lifecyclev1.RunRequest{FromKubernetesVersion: "v1.34.0", ToKubernetesVersion: old}, pending("AfterClusterUpgrade"), ""},
		{"control plane, too early", lifecyclev1.BeforeControlPlaneUpgrade, upgrade, nil, "not among its pending hooks"},
		{"control plane, too far", lifecyclev1.BeforeControlPlaneUpgrade, beyond, pending("AfterClusterUpgrade"), "not after"},
		{"control plane done", lifecyclev1.AfterControlPlaneUpgrade, after, pending("AfterClusterUpgrade", "AfterControlPlaneUpgrade"), ""},
		{"control plane not begun", lifecyclev1.AfterControlPlaneUpgrade, after, pending("AfterClusterUpgrade"), "AfterControlPlaneUpgrade is not among"},
		{"workers", lifecyclev1.BeforeWorkersUpgrade, upgrade, pending("BeforeWorkersUpgrade"), ""},
		{"workers not pending", lifecyclev1.BeforeWorkersUpgrade, upgrade, pending("AfterWorkersUpgrade"), "BeforeWorkersUpgrade is not among"},
		{"workers backwards", lifecyclev1.BeforeWorkersUpgrade, lifecyclev1.RunRequest{FromKubernetesVersion: wanted, ToKubernetesVersion: old}, pending("BeforeWorkersUpgrade"), "does not lead to"},
		{"workers done", lifecyclev1.AfterWorkersUpgrade, step, pending("AfterWorkersUpgrade"), ""},
		{"workers never began", lifecyclev1.AfterWorkersUpgrade, step, nil, "not among"},
		{"all done", lifecyclev1.AfterClusterUpgrade, after, pending("AfterClusterUpgrade"), ""},
		{"all done, another version", lifecyclev1.AfterClusterUpgrade, step, pending("AfterClusterUpgrade"), "asks for v1.36.3, not v1.35.4"},
		{"all done long ago", lifecyclev1.AfterClusterUpgrade, after, nil, "not among"},
		{"deleted", lifecyclev1.BeforeClusterDelete, lifecyclev1.RunRequest{}, deleting, ""},
		{"not deleted", lifecyclev1.BeforeClusterDelete, lifecyclev1.RunRequest{}, nil, "its deletion has begun: false"},
		{"deletion that passed", lifecyclev1.BeforeClusterDelete, lifecyclev1.RunRequest{}, passed, "was let pass already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
			cluster.Spec.Topology.Version = wanted
			if c.cluster != nil {
				c.cluster(cluster)
			}
			if got := plan.NotDue(c.hook, c.request, cluster); (got == "") != (c.tells == "") || !strings.Contains(got, c.tells) {
				t.Errorf("got %q, want %q", got, c.tells)
			}
		})
	}
}

// A hook that holds nothing back and is not pending any more may be called again; any other objection
// stays, and so does each to a hook that blocks.
func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		hook   lifecyclev1.HookName
		reason string
		want   bool
	}{
		{lifecyclev1.AfterControlPlaneInitialized, "AfterControlPlaneInitialized is not among its pending hooks", true},
		{lifecyclev1.AfterControlPlaneInitialized, "its control plane is not initialized", false},
		{lifecyclev1.AfterClusterUpgrade, "AfterClusterUpgrade is not among its pending hooks", false},
		{lifecyclev1.AfterControlPlaneInitialized, "", false},
		{lifecyclev1.BeforeWorkersUpgrade, "BeforeWorkersUpgrade is not among its pending hooks", false},
	} {
		if got := plan.Repeated(c.hook, c.reason); got != c.want {
			t.Errorf("%s, %q: %t", c.hook, c.reason, got)
		}
	}
}
