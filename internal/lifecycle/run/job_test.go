package run_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// TestKilledAtEveryWriteJobsRunOnce kills the controller, with the executor of jobs as
// it is, right after each of its writes in turn: two Jobs each run once, whatever
// the write.
func TestKilledAtEveryWriteJobsRunOnce(t *testing.T) {
	testenv.KilledAtEachWrite(t, 15, func(t *testing.T, crash *testenv.Crash) {
		w := newWorld(t, upgrade, realJob("first"), realJob("second"))
		ran := map[types.UID]bool{}
		controller := w.withRealJobs(testenv.NewCrashing(env.Client, crash))
		for passes := 0; w.run().Status.Phase != lifecyclev1.RunSucceeded; passes++ {
			if passes > 40 {
				t.Fatalf("the run stays at %q", w.run().Status.Message)
			}
			_, err := controller.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
			if crash.Crashed() {
				controller = w.withRealJobs(env.Client)
			} else if err != nil {
				t.Fatal(err)
			}
			w.playJobs(ran)
			w.clock.Step(5 * time.Second)
		}
		if len(ran) != 2 {
			t.Errorf("%d Jobs ran, want 2", len(ran))
		}
	})
}

func realJob(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Job: &lifecyclev1.JobStep{
		Target: lifecyclev1.TargetManagement,
		Spec:   runtime.RawExtension{Raw: []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}`)},
	}}
}

func (w *world) withRealJobs(c client.Client) *run.Reconciler {
	controller := w.reconciler(c)
	controller.Env = &step.Env{Management: c, Config: env.Config}
	use(controller, "job", step.Of(&lifecyclev1.Step{Job: &lifecyclev1.JobStep{}}))
	return controller
}

// playJobs does what Kubernetes' job controller does: Jobs that are not suspended run,
// and succeed.
func (w *world) playJobs(ran map[types.UID]bool) {
	w.t.Helper()
	list := &batchv1.JobList{}
	if err := env.Client.List(ctx, list, client.InNamespace(w.key.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		j := &list.Items[i]
		if ptr.Deref(j.Spec.Suspend, false) || len(j.Status.Conditions) > 0 {
			continue
		}
		ran[j.UID] = true
		now := metav1.Now()
		j.Status.StartTime, j.Status.CompletionTime, j.Status.Succeeded = &now, &now, 1
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		if err := env.Client.Status().Update(ctx, j); err != nil {
			w.t.Fatal(err)
		}
	}
}
