package privilege

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// clusterName and version are those of the only Cluster.
const clusterName, version = "prod", "v1.36.3"

// policies have steps of all kinds, and everything that they refer to. Nobody listens
// at the endpoint of the webhook.
const policies = `
apiVersion: v1
kind: ConfigMap
metadata: {name: network, namespace: default}
data: {all: "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-configmap}}"}
---
apiVersion: v1
kind: Secret
metadata: {name: network, namespace: default}
stringData: {all: "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-secret}}"}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: default}
stringData: {key: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
---
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: life, namespace: default}
spec:
  enforcement: All
  hooks:
    - hook: BeforeClusterCreate
      steps:
        - {name: quota, expression: {expression: 'clusters.size() == 1 && hosts.size() == 0'}}
        - {name: always, window: {schedule: "* * * * *", durationSeconds: 3600}}
        - {name: go, approval: {}}
    - hook: AfterControlPlaneInitialized
      steps:
        - {name: network, apply: {sources: [{kind: ConfigMap, name: network}, {kind: Secret, name: network}]}}
        - {name: there, wait: {apiVersion: v1, kind: ConfigMap, expression: 'objects.exists(o, o.metadata.name == "from-secret")'}}
    - hook: AfterClusterUpgrade
      steps:
        - {name: call, webhook: {url: "https://127.0.0.1:1", secretName: key}, retry: {limit: 2, backoffSeconds: 1}, onFailure: Continue}
        - {name: smoke, job: {target: Management, spec: {template: {spec: {restartPolicy: Never, containers: [{name: check, image: check}]}}}}}
    - hook: BeforeClusterDelete
      steps:
        - {name: save, export: {resources: [{apiVersion: v1, kind: ConfigMap, namespaces: [default]}]}, retry: {limit: 50, backoffSeconds: 1, maxBackoffSeconds: 1}}
---
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: upgrades, namespace: default}
spec:
  runHistoryLimit: 1
  hooks:
    - hook: BeforeClusterUpgrade
      steps: [{name: go, approval: {}}]
`

func (e *engine) cluster() *clusterv1.Cluster {
	e.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := e.Client.Get(e.t.Context(), client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster); err != nil {
		e.t.Fatal(err)
	}
	return cluster
}

// change changes the Cluster as Cluster API does, beside the engine.
func (e *engine) change(how func(*clusterv1.Cluster)) *clusterv1.Cluster {
	e.t.Helper()
	cluster := e.cluster()
	before := cluster.DeepCopy()
	how(cluster)
	if err := e.Client.Patch(e.t.Context(), cluster, client.MergeFrom(before)); err != nil {
		e.t.Fatal(err)
	}
	return cluster
}

// pending has Cluster API intend to call a hook.
func (e *engine) pending(hooks ...lifecyclev1.HookName) *clusterv1.Cluster {
	e.t.Helper()
	return e.change(func(c *clusterv1.Cluster) {
		delete(c.Annotations, runtimev1.PendingHooksAnnotation)
		for _, hook := range hooks {
			c.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: string(hook)}
		}
	})
}

// created decides with the ClusterRole that is meant for it, in this namespace alone.
func (e *engine) created(t *testing.T) {
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName, Finalizers: []string{"example.com/stay"}},
		Spec: clusterv1.ClusterSpec{
			Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: version},
		},
	}
	if err := e.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	pass := func(ctx context.Context) error {
		result, err := sdkclient.CallAll(ctx, e.hooks, capi.BeforeClusterCreate, cluster, &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster})
		if err == nil && result.Response.RetryAfterSeconds > 0 {
			err = fmt.Errorf("held back: %s", result.Response.Message)
		}
		return err
	}
	e.eventually("the hook is answered", func(ctx context.Context) error {
		if err := pass(ctx); err == nil || !strings.Contains(err.Error(), "approval") {
			return fmt.Errorf("want it to ask for approval: %w", err)
		}
		return nil
	})
	run := e.until(lifecyclev1.BeforeClusterCreate, "waits", func(run *lifecyclev1.LifecycleRun) bool { return run.Status.Step == "go" })

	decider, err := e.As(t.Context(), namespace, "decider")
	if err != nil {
		t.Fatal(err)
	}
	e.create(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: decider, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-lifecycle-decider}
subjects: [{kind: ServiceAccount, namespace: default, name: decider}]
`)
	c, err := client.New(decider, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	e.eventually("the decider may decide", func(ctx context.Context) error {
		before := run.DeepCopy()
		run.Annotations = map[string]string{lifecyclev1.ApproveAnnotation: "go: it is time"}
		return c.Patch(ctx, run, client.MergeFrom(before))
	})
	if d := run.Spec.Decisions; len(d) != 1 || d[0].By != "system:serviceaccount:default:decider" {
		t.Errorf("decisions: %+v", d)
	}
	e.eventually("the hook passes", pass)
}

func (e *engine) initialized(t *testing.T) {
	e.connect()
	e.change(func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: clusterName}
	})
	cluster := e.pending(lifecyclev1.AfterControlPlaneInitialized)
	cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: metav1.Now(),
	})
	if err := e.Client.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := sdkclient.CallAll(t.Context(), e.hooks, capi.AfterControlPlaneInitialized, cluster, &hooksv1.AfterControlPlaneInitializedRequest{Cluster: *cluster}); err != nil {
		t.Fatal(err)
	}
	e.until(lifecyclev1.AfterControlPlaneInitialized, "succeeds", succeeded)
}

// connect makes the kubeconfig of the workload cluster.
func (e *engine) connect() {
	e.t.Helper()
	data, err := judge.Kubeconfig(e.workload.Config)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.Client.Create(e.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName + "-kubeconfig"},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": data},
	}); err != nil {
		e.t.Fatal(err)
	}
}

// calledOff leaves a run that is pruned, and one whose policy is gone.
func (e *engine) calledOff(t *testing.T) {
	e.pending()
	call := func(to string) {
		t.Helper()
		cluster := e.change(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = to })
		request := &hooksv1.BeforeClusterUpgradeRequest{Cluster: *cluster, FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: to}
		if _, err := sdkclient.CallAll(t.Context(), e.hooks, capi.BeforeClusterUpgrade, cluster, request); err != nil {
			t.Fatal(err)
		}
	}
	cancelled := func(why string) func(*lifecyclev1.LifecycleRun) bool {
		return func(run *lifecyclev1.LifecycleRun) bool { return strings.Contains(run.Spec.Cancelled, why) }
	}
	callOff := func() { e.change(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = version }) }
	call("v1.37.0")
	callOff()
	e.until(lifecyclev1.BeforeClusterUpgrade, "is cancelled", cancelled("v1.37.0 was called off"))
	call("v1.37.1")
	callOff()
	e.until(lifecyclev1.BeforeClusterUpgrade, "is the last", cancelled("v1.37.1 was called off"))

	call(version)
	if err := e.Client.Delete(t.Context(), &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "upgrades"}}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the run is cancelled", func(ctx context.Context) error {
		runs, err := e.runs(ctx, lifecyclev1.BeforeClusterUpgrade)
		for i := range runs {
			if err == nil && cancelled("was deleted")(&runs[i]) {
				return nil
			}
		}
		return fmt.Errorf("the runs are %+v, %w", runs, err)
	})
}

// upgraded fails at the endpoint again and again, and then runs a Job.
func (e *engine) upgraded(t *testing.T) {
	cluster := e.pending(lifecyclev1.AfterClusterUpgrade)
	if _, err := sdkclient.CallAll(t.Context(), e.hooks, capi.AfterClusterUpgrade, cluster, &hooksv1.AfterClusterUpgradeRequest{Cluster: *cluster, KubernetesVersion: version}); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	e.eventually("the Job runs", func(ctx context.Context) error {
		jobs := &batchv1.JobList{}
		if err := e.Client.List(ctx, jobs, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(jobs.Items) != 1 || jobs.Items[0].Spec.Suspend == nil || *jobs.Items[0].Spec.Suspend {
			return fmt.Errorf("the Jobs are %+v", jobs.Items)
		}
		job = &jobs.Items[0]
		return nil
	})
	e.addPod(job)
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := e.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	run := e.until(lifecyclev1.AfterClusterUpgrade, "succeeds", succeeded)
	if progress := run.Progress("call"); progress.Outcome != lifecyclev1.OutcomeFailed || progress.Failures != 3 {
		t.Errorf("the call: %+v", progress)
	}
	e.eventually("the Job is removed", func(ctx context.Context) error {
		left := &batchv1.Job{}
		if err := client.IgnoreNotFound(e.Client.Get(ctx, client.ObjectKeyFromObject(job), left)); err != nil {
			return err
		}
		if left.Name != "" && left.DeletionTimestamp.IsZero() {
			return fmt.Errorf("the Job is %+v", left)
		}
		return nil
	})
}

// addPod makes the pod of a Job, whose log is asked for.
func (e *engine) addPod(job *batchv1.Job) {
	e.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: job.Name, Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}},
		Spec:       job.Spec.Template.Spec,
	}
	pod.Spec.AutomountServiceAccountToken = new(bool)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	for _, object := range []client.Object{account, pod} {
		if err := e.Client.Create(e.t.Context(), object); err != nil {
			e.t.Fatal(err)
		}
	}
}

// deleted exports after an attempt that was cut off: its first part is of other
// content, and its second is of no use.
func (e *engine) deleted(t *testing.T) {
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName + "-kubeconfig"}}
	cluster := e.cluster()
	for _, object := range []client.Object{kubeconfig, cluster} {
		if err := e.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	cluster = e.cluster()
	if _, err := sdkclient.CallAll(t.Context(), e.hooks, capi.BeforeClusterDelete, cluster, &hooksv1.BeforeClusterDeleteRequest{Cluster: *cluster}); err != nil {
		t.Fatal(err)
	}
	run := e.until(lifecyclev1.BeforeClusterDelete, "does not reach the workload cluster", func(run *lifecyclev1.LifecycleRun) bool {
		progress := run.Progress("save")
		return progress != nil && strings.Contains(progress.Message, "there is no Secret "+clusterName+"-kubeconfig")
	})
	archive := fmt.Sprintf("%s-save-%s", run.Name, run.Progress("save").StartTime.UTC().Format("20060102150405"))
	for _, part := range []string{"-0", "-1"} {
		if err := e.Client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: archive + part},
			Type:       "lifecycle.slipway.dev/archive-part", Data: map[string][]byte{"part": []byte("old")},
		}); err != nil {
			t.Fatal(err)
		}
	}
	e.connect()
	e.until(lifecyclev1.BeforeClusterDelete, "succeeds", succeeded)
	secrets := &corev1.SecretList{}
	if err := e.Client.List(t.Context(), secrets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, secret := range secrets.Items {
		if suffix, ok := strings.CutPrefix(secret.Name, archive); ok {
			found[suffix] = string(secret.Data["part"])
		}
	}
	if len(found) != 2 || found["-0"] == "old" {
		t.Errorf("the archive is %q", found)
	}
}

func (e *engine) measured(t *testing.T) {
	reader, err := e.As(t.Context(), namespace, "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	e.create(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prometheus}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: prometheus}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus}
subjects: [{kind: ServiceAccount, namespace: default, name: prometheus}]
`)
	e.eventually("the metrics are served", func(ctx context.Context) error { return e.read(ctx, reader) })
	if err := e.read(t.Context(), &rest.Config{BearerToken: "forged"}); err == nil {
		t.Error("the metrics are served to anybody")
	}
}

func (e *engine) read(ctx context.Context, as *rest.Config) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.metrics, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+as.BearerToken)
	// The server makes its certificate itself.
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // about rights, not trust
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}
