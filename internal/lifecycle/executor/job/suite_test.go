package job_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/executor/job"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var management, other *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.MainWithWorkload(m, func(e, workload *testenv.Env) { management, other = e, workload }))
}

const spec = `{"backoffLimit":0,"template":{"metadata":{"labels":{"mine":"kept"}},"spec":{"restartPolicy":"Never","containers":[
	{"name":"check","image":"sonobuoy","env":[{"name":"SLIPWAY_HOOK","value":"forged"},{"name":"MINE","value":"$(SLIPWAY_CLUSTER)"}]}]}}}`

// process is one process of the controller: it plays what the controller of
// LifecycleRuns does with a step, and dies as its crash says.
type process struct {
	management client.Client
	executor   step.Stopper
}

// crashing gives access to the workload cluster that dies with the process.
type crashing struct {
	workload.Clients
	crash *testenv.Crash
}

func (c crashing) For(ctx context.Context, cluster types.NamespacedName) (*workload.Cluster, error) {
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

func newProcess(crash *testenv.Crash) *process {
	c := testenv.NewCrashing(management.Client, crash)
	return &process{management: c, executor: job.New(c, management.Config, crashing{workload.New(management.Client, "slipway-lifecycle"), crash})}
}

// fixture is a job step of a Cluster.
type fixture struct {
	*process
	in step.Input
	// namespace of the Job.
	namespace string
	target    *testenv.Env
}

func newFixture(t *testing.T, s lifecyclev1.JobStep) *fixture {
	t.Helper()
	testenv.Skip(t)
	namespace := management.Namespace(t)
	f := &fixture{process: newProcess(&testenv.Crash{}), namespace: namespace, target: other}
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
	return lifecyclev1.JobStep{Spec: runtime.RawExtension{Raw: []byte(spec)}}
}

// attempt makes one attempt and records it as the controller does.
func (f *fixture) attempt(t *testing.T) (step.Result, error) {
	t.Helper()
	result, err := f.executor.Execute(t.Context(), f.in)
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

// write stores the progress; a process that died has not learned of it.
func (f *fixture) write(t *testing.T, progress lifecyclev1.StepProgress, err error) error {
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
func (f *fixture) reload(t *testing.T) {
	t.Helper()
	run := &lifecyclev1.LifecycleRun{}
	if err := management.Client.Get(t.Context(), client.ObjectKeyFromObject(f.in.Run), run); err != nil {
		t.Fatal(err)
	}
	f.in.Run, f.in.Step, f.in.Progress = run, &run.Spec.Steps[0], run.Spec.Progress[0]
}

// until makes attempts until one does what is wanted.
func (f *fixture) until(t *testing.T, want func(step.Result) bool) step.Result {
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

func runs(r step.Result) bool { return strings.Contains(r.Message, "runs") }

// jobs returns the Jobs of the step.
func (f *fixture) jobs(t *testing.T) []batchv1.Job {
	t.Helper()
	list := &batchv1.JobList{}
	if err := f.target.Client.List(t.Context(), list, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (f *fixture) onlyJob(t *testing.T) *batchv1.Job {
	t.Helper()
	jobs := f.jobs(t)
	if len(jobs) != 1 {
		t.Fatalf("there are %d Jobs, want 1", len(jobs))
	}
	return &jobs[0]
}

// end plays Kubernetes' job controller: it ends the Job.
func (f *fixture) end(t *testing.T, j *batchv1.Job, succeeded bool) {
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
func (f *fixture) log(t *testing.T, job string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := management.Client.Get(t.Context(), client.ObjectKey{Namespace: f.in.Run.Namespace, Name: job + "-log"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// addPod makes the pod p1 of a Job on a node whose kubelet answers with the given log.
func (f *fixture) addPod(t *testing.T, j *batchv1.Job, log string) {
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
