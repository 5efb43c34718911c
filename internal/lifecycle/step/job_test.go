package step_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

const jobSpec = `{"backoffLimit":0,"template":{"metadata":{"labels":{"mine":"kept"}},"spec":{"restartPolicy":"Never","containers":[
	{"name":"check","image":"sonobuoy","env":[{"name":"SLIPWAY_HOOK","value":"forged"},{"name":"MINE","value":"$(SLIPWAY_CLUSTER)"}]}]}}}`

// jobProcess is one process of the controller: it plays what the controller of
// LifecycleRuns does with a step, and dies as its crash says.
type jobProcess struct {
	management client.Client
	env        *step.Env
}

// crashingClients gives access to the workload cluster that dies with the process.
type crashingClients struct {
	workload.Clients
	crash *testenv.Crash
}

func (c crashingClients) For(ctx context.Context, cluster types.NamespacedName) (*workload.Cluster, error) {
	access, err := c.Clients.For(ctx, cluster)
	if err != nil {
		return nil, err
	}
	live, err := client.NewWithWatch(access.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	return &workload.Cluster{Client: testenv.NewCrashing(live, c.crash), Config: access.Config}, nil
}

func newJobProcess(crash *testenv.Crash) *jobProcess {
	c := testenv.NewCrashing(management.Client, crash)
	env := newEnv(c)
	env.Workload = crashingClients{env.Workload, crash}
	return &jobProcess{management: c, env: env}
}

// jobFixture is a job step of a Cluster.
type jobFixture struct {
	*jobProcess
	in step.Input
	// namespace of the Job.
	namespace string
	target    *testenv.Env
}

func newJobFixture(t *testing.T, s lifecyclev1.JobStep) *jobFixture {
	t.Helper()
	testenv.Skip(t)
	namespace := management.Namespace(t)
	f := &jobFixture{jobProcess: newJobProcess(&testenv.Crash{}), namespace: namespace, target: other}
	if s.Target == lifecyclev1.TargetManagement {
		f.target = management
	} else {
		s.Namespace = namespace
		if err := other.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	cluster := management.NewWorkloadCluster(t, namespace, other)
	f.in = testenv.NewStep(t, management.Client, cluster, lifecyclev1.AfterClusterUpgrade, lifecyclev1.Step{Name: "smoke", Job: &s})
	return f
}

func jobStep() lifecyclev1.JobStep {
	return lifecyclev1.JobStep{Spec: runtime.RawExtension{Raw: []byte(jobSpec)}}
}

// attempt makes one attempt and records it as the controller does.
func (f *jobFixture) attempt(t *testing.T) (step.Result, error) {
	t.Helper()
	result, err := execute(t, f.env, f.in)
	progress := f.in.Progress
	switch {
	case err != nil:
		progress.Failures++
	case result.Job != nil:
		progress.Job = result.Job
	default:
		return result, nil
	}
	return result, f.write(t, progress, err)
}

func stop(t *testing.T, env *step.Env, in step.Input) error {
	t.Helper()
	in.Env = env
	return step.Of(in.Step).(step.Stopper).Stop(t.Context(), in)
}

// write stores the progress; a process that died has not learned of it.
func (f *jobFixture) write(t *testing.T, progress lifecyclev1.StepProgress, err error) error {
	t.Helper()
	run := f.in.Run.DeepCopy()
	run.Spec.Progress[0] = progress
	if failed := f.management.Update(t.Context(), run); failed != nil {
		return failed
	}
	f.reload(t)
	return err
}

// reload reads the step as a new process does.
func (f *jobFixture) reload(t *testing.T) {
	t.Helper()
	run := &lifecyclev1.LifecycleRun{}
	if err := management.Client.Get(t.Context(), client.ObjectKeyFromObject(f.in.Run), run); err != nil {
		t.Fatal(err)
	}
	f.in.Run, f.in.Step, f.in.Progress = run, &run.Spec.Steps[0], run.Spec.Progress[0]
}

// until makes attempts until one does what is wanted.
func (f *jobFixture) until(t *testing.T, want func(step.Result) bool) step.Result {
	t.Helper()
	for range 10 {
		result, err := f.attempt(t)
		if err != nil {
			t.Fatal(err)
		}
		if want(result) {
			return result
		}
	}
	t.Fatal("the step does not get there")
	return step.Result{}
}

func jobRuns(r step.Result) bool { return strings.Contains(r.Message, "runs") }

// jobs returns the Jobs of the step.
func (f *jobFixture) jobs(t *testing.T) []batchv1.Job {
	t.Helper()
	list := &batchv1.JobList{}
	if err := f.target.Client.List(t.Context(), list, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (f *jobFixture) onlyJob(t *testing.T) *batchv1.Job {
	t.Helper()
	jobs := f.jobs(t)
	if len(jobs) != 1 {
		t.Fatalf("there are %d Jobs, want 1", len(jobs))
	}
	return &jobs[0]
}

// end plays Kubernetes' job controller: it ends the Job.
func (f *jobFixture) end(t *testing.T, j *batchv1.Job, succeeded bool) {
	t.Helper()
	now := metav1.Now()
	condition := func(kind batchv1.JobConditionType, reason, message string) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now, LastProbeTime: now,
		})
	}
	j.Status.StartTime = &now
	if succeeded {
		j.Status.CompletionTime, j.Status.Succeeded = &now, 1
		condition(batchv1.JobSuccessCriteriaMet, "CompletionsReached", "")
		condition(batchv1.JobComplete, "CompletionsReached", "")
	} else {
		j.Status.Failed = 1
		condition(batchv1.JobFailureTarget, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
		condition(batchv1.JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	}
	if err := f.target.Client.Status().Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

// log reads the Secret with the logs of a Job.
func (f *jobFixture) log(t *testing.T, job string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := management.Client.Get(t.Context(), client.ObjectKey{Namespace: f.in.Run.Namespace, Name: job + "-log"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// addPod makes the pod p1 of a Job on a node whose kubelet answers with the given log.
func (f *jobFixture) addPod(t *testing.T, j *batchv1.Job, log string) {
	t.Helper()
	const name = "p1"
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != fmt.Sprintf("/containerLogs/%s/%s/check", f.namespace, name) {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, log)
	}))
	t.Cleanup(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + name}}
	if err := f.target.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if err := f.target.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{batchv1.ControllerUidLabel: string(j.UID)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}, Spec: j.Spec.Template.Spec}
	pod.Spec.NodeName = node.Name
	pod.Spec.AutomountServiceAccountToken = new(bool)
	if err := f.target.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "default"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	if err := f.target.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "check", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Now())}}, ContainerID: "containerd://1"}}
	if err := f.target.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

func TestAJobRunsKeepsItsLogAndIsRemoved(t *testing.T) {
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
	f := newJobFixture(t, jobStep())
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
	s.Spec.Raw = []byte(`{"suspend":true,` + jobSpec[1:])
	f := newJobFixture(t, s)
	f.until(t, func(r step.Result) bool { return strings.Contains(r.Message, "is suspended") })
	if j := f.onlyJob(t); !ptr.Deref(j.Spec.Suspend, false) {
		t.Error("it was resumed")
	}
}

func TestJobsKnowTheirHookAndEndByThemselves(t *testing.T) {
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
	f.until(t, jobRuns)
	if second := f.onlyJob(t); second.Name == first.Name {
		t.Errorf("the retry has the same name %s", second.Name)
	}
}

func TestAFailureThatWasNotRecordedIsToldAgain(t *testing.T) {
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
	f.end(t, f.onlyJob(t), false)
	_, first := execute(t, f.env, f.in)
	_, second := execute(t, f.env, f.in)
	if first == nil || second == nil || first.Error() != second.Error() {
		t.Errorf("got %v, then %v", first, second)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs are left", len(jobs))
	}
}

func TestAJobThatSomebodyDeletedIsNotRunAgain(t *testing.T) {
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
	if err := f.target.Client.Delete(t.Context(), f.onlyJob(t), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "somebody deleted Job") || !strings.Contains(err.Error(), "retry it to run the Job again") {
		t.Errorf("got %v", err)
	}
	if jobs := f.jobs(t); len(jobs) != 0 {
		t.Errorf("%d Jobs were made", len(jobs))
	}
}

func TestAForeignJobOfTheSameNameIsLeftAlone(t *testing.T) {
	f := newJobFixture(t, jobStep())
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.in.Progress.Job.Name}}
	foreign.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	if err := f.target.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "not this step's") {
		t.Errorf("got %v", err)
	}
	if err := stop(t, f.env, f.in); err != nil {
		t.Fatal(err)
	}
	f.onlyJob(t)
}

func TestAJobOfTheManagementClusterBelongsToTheRun(t *testing.T) {
	s := jobStep()
	s.Target = lifecyclev1.TargetManagement
	f := newJobFixture(t, s)
	f.until(t, jobRuns)
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
	f := newJobFixture(t, jobStep())
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	name := f.in.Progress.Job.Name
	f.in.Progress.Job = &lifecyclev1.JobReference{Target: lifecyclev1.TargetManagement, Namespace: metav1.NamespaceSystem, Name: "pwn"}
	if err := f.write(t, f.in.Progress, nil); err != nil {
		t.Fatal(err)
	}
	f.until(t, jobRuns)
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
	if err := stop(t, f.env, f.in); err != nil {
		t.Fatal(err)
	}
	if err := management.Client.Get(t.Context(), client.ObjectKeyFromObject(victim), victim); err != nil || !victim.DeletionTimestamp.IsZero() {
		t.Errorf("the other Job: %v, deleted at %v", err, victim.DeletionTimestamp)
	}
}

func TestAClusterOutOfReachIsWaitedFor(t *testing.T) {
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.in.Run.Namespace, Name: "c1-kubeconfig"}}
	if err := management.Client.Delete(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	result, err := execute(t, f.env, f.in)
	if !step.IsUnreached(err) || result.Done || !strings.Contains(err.Error(), "there is no Secret c1-kubeconfig") {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestASpecThatTheAPIServerRefusesFailsTheAttempt(t *testing.T) {
	s := jobStep()
	s.Spec.Raw = []byte(strings.Replace(jobSpec, `"name":"check"`, `"name":"Not_A_Name"`, 1))
	f := newJobFixture(t, s)
	if _, err := f.attempt(t); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if err == nil || !strings.Contains(err.Error(), "spec.template.spec.containers[0].name") {
		t.Errorf("got %v", err)
	}
}

func TestStopKeepsTheLogAndEndsTheJob(t *testing.T) {
	f := newJobFixture(t, jobStep())
	if err := stop(t, f.env, f.in); err != nil {
		t.Fatal(err)
	}
	f.until(t, jobRuns)
	j := f.onlyJob(t)
	f.addPod(t, j, "working\n")
	for range 2 {
		if err := stop(t, f.env, f.in); err != nil {
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
	f := newJobFixture(t, jobStep())
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	result, err := execute(t, f.env, f.in)
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
		f := newJobFixture(t, jobStep())
		f.jobProcess = newJobProcess(crash)
		ran := map[types.UID]bool{}
		done := false
		for attempts := 0; !done; attempts++ {
			if attempts > 20 {
				t.Fatal("the step does not end")
			}
			result, err := f.attempt(t)
			if errors.Is(err, testenv.ErrCrashed) || crash.Crashed() {
				f.jobProcess = newJobProcess(&testenv.Crash{})
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
	f := newJobFixture(t, jobStep())
	f.until(t, jobRuns)
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
