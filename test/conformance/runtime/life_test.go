package runtime

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// world is what upstream has made of the topology.
type world struct {
	// controlPlane and workers are the versions that they are told to have.
	controlPlane, workers string
	// replicas of the workers.
	replicas int32
	// dying is something whose deletion has begun, besides the Cluster.
	dying bool
}

// moment is one at which Cluster API calls a lifecycle hook.
type moment struct {
	hook string
	// comes brings the Cluster there, as far as upstream does not by itself.
	comes func(*stage)
	// is the world while the hook is held.
	is world
}

// life is that of a Cluster, whose workers are scaled up while its upgrade is held back.
func life() []moment {
	bySelf := func(*stage) {}
	return []moment{
		{"BeforeClusterCreate", (*stage).createCluster, world{}},
		{"AfterControlPlaneInitialized", (*stage).playProvider, world{controlPlane: oldVersion, workers: oldVersion}},
		{"BeforeClusterUpgrade", (*stage).upgradeAndScale, world{controlPlane: oldVersion, workers: oldVersion}},
		{"BeforeControlPlaneUpgrade", bySelf, world{controlPlane: oldVersion, workers: oldVersion}},
		{"AfterControlPlaneUpgrade", bySelf, world{controlPlane: newVersion, workers: oldVersion}},
		{"BeforeWorkersUpgrade", bySelf, world{controlPlane: newVersion, workers: oldVersion}},
		{"AfterWorkersUpgrade", bySelf, world{controlPlane: newVersion, workers: newVersion, replicas: 1}},
		{"AfterClusterUpgrade", bySelf, world{controlPlane: newVersion, workers: newVersion, replicas: 1}},
		{"BeforeClusterDelete", (*stage).deleteCluster, world{controlPlane: newVersion, workers: newVersion, replicas: 1}},
	}
}

// upgradeAndScale asks for another version, and for a worker, which is delayed until the
// workers may have the version.
func (s *stage) upgradeAndScale() {
	s.t.Helper()
	s.expectPatched()
	s.refuseSize()
	s.update(func(c *clusterv1.Cluster) {
		c.Spec.Topology.Version = newVersion
		c.Spec.Topology.Workers.MachineDeployments[0].Replicas = ptr.To(int32(1))
	})
}

// deleteCluster is after a next upgrade was refused while the last one's hook was held,
// and that hook has passed.
func (s *stage) deleteCluster() {
	s.t.Helper()
	s.eventually("the last hook of the upgrade has passed", func() bool { return !s.pending("AfterClusterUpgrade") })
	if err := s.Delete(s.t.Context(), s.cluster()); err != nil {
		s.t.Fatal(err)
	}
}

// expectHeld waits until upstream has asked again whether the Cluster may go on,
// and fails if anything went on meanwhile. A hook that upstream does not wait for is called once,
// and once more where its cache does not have that yet.
func (s *stage) expectHeld(r *recorder, m moment, later []moment) {
	s.t.Helper()
	blocking := lifecyclev1.HookName(m.hook).Blocking()
	s.eventually("hook "+m.hook+" is called", func() bool {
		if s.pending("AfterControlPlaneUpgrade") {
			s.followVersion(r)
		}
		if blocking {
			return r.count(m.hook) >= 2 && strings.Contains(s.describe(), "waiting for "+m.hook)
		}
		return r.count(m.hook) >= 1 && !s.pending(m.hook) && s.is() == m.is
	})
	if is := s.is(); is != m.is {
		s.t.Errorf("while hook %s is held there is %+v, want %+v", m.hook, is, m.is)
	}
	for _, next := range later {
		if r.count(next.hook) > 0 {
			s.t.Errorf("hook %s was called while %s is held", next.hook, m.hook)
		}
	}
	if m.hook == "AfterClusterUpgrade" {
		s.expectNoNextUpgrade()
	}
}

// expectNoNextUpgrade: what AfterClusterUpgrade holds back is the next upgrade.
func (s *stage) expectNoNextUpgrade() {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // upstream writes the Cluster, too
		cluster := s.cluster()
		cluster.Spec.Topology.Version = nextVersion
		return s.Update(s.t.Context(), cluster, client.DryRunAll)
	})
	if err == nil || !strings.Contains(err.Error(), "AfterClusterUpgrade") {
		s.t.Errorf("the next upgrade answers %v, want it refused for AfterClusterUpgrade", err)
	}
}

// pending says whether upstream has written down that it will call a hook.
func (s *stage) pending(hook string) bool {
	s.t.Helper()
	return slices.Contains(strings.Split(s.cluster().Annotations[runtimev1.PendingHooksAnnotation], ","), hook)
}

// is what there is now.
func (s *stage) is() world {
	s.t.Helper()
	var is world
	for _, kind := range []string{infraKind, controlPlaneKind} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		s.list(list)
		for _, object := range list.Items {
			is.dying = is.dying || object.GetDeletionTimestamp() != nil
			if kind == controlPlaneKind {
				is.controlPlane, _, _ = unstructured.NestedString(object.Object, "spec", "version")
			}
		}
	}
	workers := &clusterv1.MachineDeploymentList{}
	s.list(workers)
	for _, deployment := range workers.Items {
		is.dying = is.dying || deployment.DeletionTimestamp != nil
		is.workers, is.replicas = deployment.Spec.Template.Spec.Version, ptr.Deref(deployment.Spec.Replicas, -1)
	}
	return is
}

func (s *stage) list(list client.ObjectList) {
	s.t.Helper()
	if err := s.List(s.t.Context(), list, client.InNamespace(s.key.Namespace)); err != nil {
		s.t.Fatal(fmt.Errorf("list %T: %w", list, err))
	}
}
