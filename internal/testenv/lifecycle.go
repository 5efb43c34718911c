package testenv

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// NewStep makes a LifecycleRun of a Cluster with a single step, which has just begun,
// and returns what its executor gets.
func NewStep(t *testing.T, c client.Client, cluster *clusterv1.Cluster, hook lifecyclev1.HookName, s lifecyclev1.Step) step.Input {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	run := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: cluster.Name + "-" + s.Name,
			OwnerReferences: []metav1.OwnerReference{owner("Cluster", cluster)},
		},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: cluster.Name, PolicyName: "policy", PolicyGeneration: 1,
			Mode: lifecyclev1.ModeEnforce, Hook: hook, Attempt: 1,
			Request:  lifecyclev1.RunRequest{KubernetesVersion: Version},
			Steps:    []lifecyclev1.Step{s},
			Progress: []lifecyclev1.StepProgress{{Name: s.Name, StartTime: metav1.NewTime(now)}},
		},
	}
	create(t, c, run)
	return step.Input{Run: run, Step: &run.Spec.Steps[0], Progress: run.Spec.Progress[0], Cluster: cluster, Now: now}
}
