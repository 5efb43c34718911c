package job_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestAJobRunsKeepsItsLogAndIsRemoved(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	j := f.onlyJob(t)
	f.addPod(t, j, "all is well\n")
	f.end(t, j, true)
	result := f.until(t, func(r step.Result) bool { return r.Done })
	if !strings.Contains(result.Message, "succeeded; its logs are in Secret c1-smoke-smoke-log") {
		t.Errorf("message %q", result.Message)
	}
	log := f.log(t, j.Name)
	if got := string(log.Data["p1.check.log"]); got != "all is well\n" {
		t.Errorf("log %q of %v", got, log.Data)
	}
	if len(log.OwnerReferences) != 1 || log.OwnerReferences[0].UID != f.in.Run.UID {
		t.Errorf("owners %v", log.OwnerReferences)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs are left", len(jobs))
	}
	if again, err := f.attempt(t); err != nil || again != result {
		t.Errorf("asked again: %+v, %v", again, err)
	}
}

func TestTheEndOfALongLogIsKept(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	j := f.onlyJob(t)
	f.addPod(t, j, strings.Repeat("x", 300<<10)+"the end")
	f.end(t, j, true)
	f.until(t, func(r step.Result) bool { return r.Done })
	log := f.log(t, j.Name).Data["p1.check.log"]
	if len(log) != 128<<10 || !strings.HasSuffix(string(log), "the end") {
		t.Errorf("%d bytes are kept", len(log))
	}
}

func TestALogThatCannotBeReadDoesNotChangeTheResult(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	j := f.onlyJob(t)
	f.addPod(t, j, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "p1"}}
	if err := f.target.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + pod.Name}}); err != nil {
		t.Fatal(err)
	}
	f.end(t, j, true)
	f.until(t, func(r step.Result) bool { return r.Done })
	if got := string(f.log(t, j.Name).Data["p1.check.log"]); !strings.Contains(got, "the log could not be read") {
		t.Errorf("log %q", got)
	}
}

func TestTheJobIsHeldUntilItsUIDIsRecorded(t *testing.T) {
	f := newFixture(t, jobStep())
	if result, err := f.attempt(t); err != nil || result.Job == nil || result.Job.UID != "" || len(f.jobs(t)) != 0 {
		t.Fatalf("first its name is recorded: %+v, %v", result, err)
	}
	if result, err := f.attempt(t); err != nil || result.Job == nil || result.Job.UID == "" {
		t.Fatalf("then its UID is recorded: %+v, %v", result, err)
	}
	if j := f.onlyJob(t); !ptr.Deref(j.Spec.Suspend, false) {
		t.Fatal("it runs before its UID is recorded")
	}
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	if j := f.onlyJob(t); ptr.Deref(j.Spec.Suspend, false) {
		t.Error("it is still suspended")
	}
}

func TestAJobSuspendedByItsAuthorIsLeftToOthers(t *testing.T) {
	s := jobStep()
	s.Spec.Raw = []byte(`{"suspend":true,` + spec[1:])
	f := newFixture(t, s)
	f.until(t, func(r step.Result) bool { return strings.Contains(r.Message, "is suspended") })
	if j := f.onlyJob(t); !ptr.Deref(j.Spec.Suspend, false) {
		t.Error("it was resumed")
	}
}

func TestJobsKnowTheirHookAndEndByThemselves(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	j := f.onlyJob(t)
	var env []string
	for _, v := range j.Spec.Template.Spec.Containers[0].Env {
		env = append(env, v.Name+"="+v.Value)
	}
	want := fmt.Sprintf("SLIPWAY_CLUSTER=c1 SLIPWAY_NAMESPACE=%s SLIPWAY_HOOK=AfterClusterUpgrade SLIPWAY_KUBERNETES_VERSION=%s MINE=$(SLIPWAY_CLUSTER)", f.in.Run.Namespace, testenv.Version)
	if got := strings.Join(env, " "); got != want {
		t.Errorf("environment\n%s\nwant\n%s", got, want)
	}
	for key, value := range map[string]string{clusterv1.ClusterNameLabel: "c1", lifecyclev1.StepLabel: "smoke", lifecyclev1.RunLabel: "c1-smoke"} {
		if j.Labels[key] != value || j.Spec.Template.Labels[key] != value {
			t.Errorf("label %s is %q, and %q of pods", key, j.Labels[key], j.Spec.Template.Labels[key])
		}
	}
	if j.Spec.Template.Labels["mine"] != "kept" {
		t.Error("labels of the author are lost")
	}
	if deadline := ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0); deadline < 600 || deadline > 660 {
		t.Errorf("ends by itself after %d s, want the step's 600 s and a little", deadline)
	}
	if j.Spec.TTLSecondsAfterFinished == nil {
		t.Error("is never removed if nobody looks")
	}
}

func TestAFailedJobFailsTheAttempt(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	first := f.onlyJob(t)
	f.addPod(t, first, "no\n")
	f.end(t, first, false)
	_, err := f.attempt(t)
	if err == nil || !strings.Contains(err.Error(), "failed: BackoffLimitExceeded: Job has reached the specified backoff limit; its logs are in Secret c1-smoke-smoke-log") {
		t.Fatalf("got %v", err)
	}
	if got := string(f.log(t, first.Name).Data["p1.check.log"]); got != "no\n" {
		t.Errorf("log %q", got)
	}
	if !step.IsTerminal(err) {
		t.Error("a Job that failed is run again by itself")
	}
	// A person has it retried.
	f.in.Progress.Attempt++
	f.in.Progress.Job = nil
	if err := f.write(t, f.in.Progress, nil); err != nil {
		t.Fatal(err)
	}
	f.until(t, runs)
	if second := f.onlyJob(t); second.Name == first.Name {
		t.Errorf("the retry has the same name %s", second.Name)
	}
}

func TestAFailureThatWasNotRecordedIsToldAgain(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	f.end(t, f.onlyJob(t), false)
	_, first := f.executor.Execute(t.Context(), f.in)
	_, second := f.executor.Execute(t.Context(), f.in)
	if first == nil || second == nil || first.Error() != second.Error() {
		t.Errorf("got %v, then %v", first, second)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs are left", len(jobs))
	}
}

func TestAJobThatSomebodyDeletedIsNotRunAgain(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	if err := f.target.Client.Delete(t.Context(), f.onlyJob(t), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	_, err := f.executor.Execute(t.Context(), f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "somebody deleted Job") || !strings.Contains(err.Error(), "retry it to run the Job again") {
		t.Errorf("got %v", err)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs were made", len(jobs))
	}
}

func TestAForeignJobOfTheSameNameIsLeftAlone(t *testing.T) {
	f := newFixture(t, jobStep())
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.in.Progress.Job.Name}}
	foreign.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	if err := f.target.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	_, err := f.executor.Execute(t.Context(), f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "not this step's") {
		t.Errorf("got %v", err)
	}
	if err := f.executor.Stop(t.Context(), f.in); err != nil {
		t.Fatal(err)
	}
	f.onlyJob(t)
}

func TestAJobOfTheManagementClusterBelongsToTheRun(t *testing.T) {
	s := jobStep()
	s.Target = lifecyclev1.TargetManagement
	f := newFixture(t, s)
	f.until(t, runs)
	j := f.onlyJob(t)
	if len(j.OwnerReferences) != 1 || j.OwnerReferences[0].UID != f.in.Run.UID {
		t.Errorf("owners %v", j.OwnerReferences)
	}
	f.end(t, j, true)
	f.until(t, func(r step.Result) bool { return r.Done })
}

// TestARecordLeadsNowhereElse: the place of a Job is that of the policy, whatever the
// run records.
func TestARecordLeadsNowhereElse(t *testing.T) {
	f := newFixture(t, jobStep())
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	name := f.in.Progress.Job.Name
	f.in.Progress.Job = &lifecyclev1.JobReference{Target: lifecyclev1.TargetManagement, Namespace: metav1.NamespaceSystem, Name: "pwn"}
	if err := f.write(t, f.in.Progress, nil); err != nil {
		t.Fatal(err)
	}
	f.until(t, runs)
	if j := f.onlyJob(t); j.Name != name {
		t.Errorf("the Job is %s, want %s", j.Name, name)
	}
	elsewhere := &batchv1.JobList{}
	if err := management.Client.List(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	for _, j := range elsewhere.Items {
		if j.Name == "pwn" {
			t.Errorf("there is a Job %s/%s", j.Namespace, j.Name)
		}
	}
	// What is there under the recorded name is not stopped, either.
	victim := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pwn", Annotations: f.onlyJob(t).Annotations}}
	victim.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	if err := management.Client.Create(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	f.in.Progress.Job = &lifecyclev1.JobReference{Target: lifecyclev1.TargetManagement, Namespace: victim.Namespace, Name: victim.Name, UID: victim.UID}
	if err := f.executor.Stop(t.Context(), f.in); err != nil {
		t.Fatal(err)
	}
	if err := management.Client.Get(t.Context(), client.ObjectKeyFromObject(victim), victim); err != nil || !victim.DeletionTimestamp.IsZero() {
		t.Errorf("the other Job: %v, deleted at %v", err, victim.DeletionTimestamp)
	}
}

func TestAClusterOutOfReachIsWaitedFor(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.in.Run.Namespace, Name: "c1-kubeconfig"}}
	if err := management.Client.Delete(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	result, err := f.executor.Execute(t.Context(), f.in)
	if !step.IsUnreached(err) || result.Done || !strings.Contains(err.Error(), "there is no Secret c1-kubeconfig") {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestASpecThatTheAPIServerRefusesFailsTheAttempt(t *testing.T) {
	s := jobStep()
	s.Spec.Raw = []byte(strings.Replace(spec, `"name":"check"`, `"name":"Not_A_Name"`, 1))
	f := newFixture(t, s)
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	_, err := f.executor.Execute(t.Context(), f.in)
	if err == nil || !strings.Contains(err.Error(), "spec.template.spec.containers[0].name") {
		t.Errorf("got %v", err)
	}
}

func TestStopKeepsTheLogAndEndsTheJob(t *testing.T) {
	f := newFixture(t, jobStep())
	if err := f.executor.Stop(t.Context(), f.in); err != nil {
		t.Fatal(err)
	}
	f.until(t, runs)
	j := f.onlyJob(t)
	f.addPod(t, j, "working\n")
	for range 2 {
		if err := f.executor.Stop(t.Context(), f.in); err != nil {
			t.Fatal(err)
		}
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs are left", len(jobs))
	}
	if got := string(f.log(t, j.Name).Data["p1.check.log"]); got != "working\n" {
		t.Errorf("log %q", got)
	}
}

func TestAuditRunsNoJob(t *testing.T) {
	f := newFixture(t, jobStep())
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	result, err := f.executor.Execute(t.Context(), f.in)
	if err != nil || !result.Done || !strings.Contains(result.Message, "would run a Job in namespace "+f.namespace+" of the Workload cluster") {
		t.Errorf("got %+v, %v", result, err)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs were made", len(jobs))
	}
}

// TestKilledAfterAnyWriteAJobRunsOnce kills the controller after each of its writes, in
// turn, also with the Job deleted behind its back before it is recorded.
func TestKilledAfterAnyWriteAJobRunsOnce(t *testing.T) {
	testenv.KilledAtEachWrite(t, 5, func(t *testing.T, crash *testenv.Crash) {
		f := newFixture(t, jobStep())
		f.process = newProcess(crash)
		ran := map[types.UID]bool{}
		done := false
		for attempts := 0; !done; attempts++ {
			if attempts > 20 {
				t.Fatal("the step does not end")
			}
			result, err := f.attempt(t)
			if errors.Is(err, testenv.ErrCrashed) || crash.Crashed() {
				f.process = newProcess(&testenv.Crash{})
				f.reload(t)
			} else if err != nil {
				t.Fatal(err)
			}
			done = result.Done && err == nil
			for _, j := range f.jobs(t) {
				if !ptr.Deref(j.Spec.Suspend, false) {
					ran[j.UID] = true
					if len(j.Status.Conditions) == 0 {
						f.end(t, &j, true)
					}
				}
			}
		}
		if len(ran) != 1 || len(f.jobs(t)) != 0 {
			t.Errorf("%d Jobs ran, %d are left", len(ran), len(f.jobs(t)))
		}
	})
}

func TestWhatKeepsAPodFromRunningIsTold(t *testing.T) {
	f := newFixture(t, jobStep())
	f.until(t, runs)
	f.addPod(t, f.onlyJob(t), "")
	pod := &corev1.Pod{}
	if err := f.target.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "p1"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	if err := f.target.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	result, err := f.attempt(t)
	if err != nil || !strings.HasSuffix(result.Message, "; pod p1: Unschedulable: 0/1 nodes are available") {
		t.Errorf("got %+v, %v", result, err)
	}
}
