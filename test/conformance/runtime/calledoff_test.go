package runtime

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// TestUpgradeCalledOff shows what upstream allows who calls an upgrade off, and holds
// that slipway-lifecycle sees it, so that an approval does not count for the next one.
func TestUpgradeCalledOff(t *testing.T) {
	level.Deep(t)
	s, recorder := startRecorded(t)
	moments := life()
	for i, m := range moments[:3] {
		m.comes(s)
		s.expectHeld(recorder, m, moments[i+1:])
		if m.hook != "BeforeClusterUpgrade" {
			recorder.release(m.hook)
		}
	}

	// Neither back nor to another version, while the hook holds the upgrade back.
	s.expectRefused(oldVersion, "version cannot be decreased")
	s.expectRefused(nextVersion, "was not propagated to control plane yet")

	// With the annotation, back: nothing is held any more, so the worker is made.
	s.ask(oldVersion, true)
	s.expectWorld(world{controlPlane: oldVersion, workers: oldVersion, replicas: 1})
	s.expectCalledOff("BeforeClusterUpgrade", true)
	s.expectCalledOff("BeforeClusterUpgrade", false)

	// The next time the hook is called anew.
	s.ask(newVersion, false)
	s.expectAnotherCall(recorder, "BeforeClusterUpgrade")
	s.expectNotCalledOff("BeforeClusterUpgrade")
	recorder.release("BeforeClusterUpgrade")
	s.eventually("BeforeControlPlaneUpgrade holds", func() bool { return strings.Contains(s.describe(), "waiting for BeforeControlPlaneUpgrade") })
	s.expectNotCalledOff("BeforeClusterUpgrade")

	// Back, after the hook has passed: the upgrade that did not come about is ended.
	s.ask(oldVersion, true)
	s.expectCalledOff("BeforeClusterUpgrade", true)
	s.expectCalledOff("BeforeControlPlaneUpgrade", false)
	s.eventually("AfterClusterUpgrade is called", func() bool { return recorder.count("AfterClusterUpgrade") > 0 })
	recorder.release("AfterClusterUpgrade")
	s.eventually("the upgrade is over", func() bool { return !s.pending("AfterClusterUpgrade") })
	s.expectWorld(world{controlPlane: oldVersion, workers: oldVersion, replicas: 1})

	// The one after that is asked for from the beginning.
	s.ask(newVersion, false)
	s.expectAnotherCall(recorder, "BeforeClusterUpgrade")
	s.expectAnotherCall(recorder, "BeforeControlPlaneUpgrade")
	if len(recorder.undue) > 0 {
		t.Errorf("slipway-lifecycle would refuse calls of upstream's core: %q", recorder.undue)
	}
}

// ask changes the version of the topology; unchecked has upstream take any.
func (s *stage) ask(version string, unchecked bool) {
	s.t.Helper()
	s.update(func(c *clusterv1.Cluster) { setVersion(c, version, unchecked) })
}

func setVersion(c *clusterv1.Cluster, version string, unchecked bool) {
	c.Spec.Topology.Version = version
	delete(c.Annotations, clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation)
	if unchecked {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation, "")
	}
}

// expectRefused holds that upstream does not take another version.
func (s *stage) expectRefused(version, why string) {
	s.t.Helper()
	s.eventually(version+" is refused: "+why, func() bool {
		cluster := s.cluster()
		setVersion(cluster, version, false)
		err := s.Update(s.t.Context(), cluster, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), why)
	})
}

func (s *stage) expectWorld(want world) {
	s.t.Helper()
	s.eventually("there is what the topology asks for", func() bool { return s.is() == want })
}

func (s *stage) expectAnotherCall(r *recorder, hook string) {
	s.t.Helper()
	before := r.count(hook)
	s.eventually(hook+" is called again", func() bool { return r.count(hook) > before })
}

// cancelReason is what slipway-lifecycle says about a run of the upgrade, as the Cluster is.
func (s *stage) cancelReason(hook lifecyclev1.HookName, succeeded bool) string {
	s.t.Helper()
	steps := []lifecyclev1.Step{{Name: "go", Approval: &lifecyclev1.ApprovalStep{}}}
	run := &lifecyclev1.LifecycleRun{Spec: lifecyclev1.LifecycleRunSpec{
		Hook: hook, Steps: steps, Request: lifecyclev1.RunRequest{FromKubernetesVersion: oldVersion, ToKubernetesVersion: newVersion},
	}}
	if succeeded {
		run.Spec.Progress = []lifecyclev1.StepProgress{{Name: "go", Outcome: lifecyclev1.OutcomeSucceeded}}
	}
	policy := &lifecyclev1.LifecyclePolicy{Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Hook: hook, Steps: steps}}}}
	return plan.CancelReason(run, policy, s.cluster(), time.Now())
}

func (s *stage) expectCalledOff(hook lifecyclev1.HookName, succeeded bool) {
	s.t.Helper()
	if reason := s.cancelReason(hook, succeeded); !strings.Contains(reason, "the upgrade to "+newVersion+" was called off") {
		s.t.Errorf("a run of %s, succeeded: %t, says %q", hook, succeeded, reason)
	}
}

func (s *stage) expectNotCalledOff(hook lifecyclev1.HookName) {
	s.t.Helper()
	if reason := s.cancelReason(hook, true); reason != "" {
		s.t.Errorf("a run of %s that has succeeded is given up: %s", hook, reason)
	}
}
