package lifecycle

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

const oldVersion, newVersion = "v1.35.4", "v1.36.3"

// stage is a Cluster that is to be upgraded, in a namespace of its own.
type stage struct {
	client.Client
	t         *testing.T
	namespace string
	cluster   *clusterv1.Cluster
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Client: all.management.Client, t: t}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "stage-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	for _, role := range []string{"slipway-lifecycle-steps", "slipway-lifecycle-jobs"} {
		s.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: programNamespace, Name: "slipway-lifecycle"}},
		})
	}
	return s
}

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := s.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// createCluster creates the Cluster and what its policies refer to. The workload
// cluster is reached through a proxy.
func (s *stage) createCluster(r *replica) {
	s.t.Helper()
	const name = "edge"
	workload := startProxy(s.t, all.workload.Config, "", r.effects)
	all.expect(s.namespace, r.effects)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace, Name: name} }
	s.create(&corev1.Secret{ObjectMeta: meta(secret.Name(name, secret.Kubeconfig)), Data: map[string][]byte{secret.KubeconfigDataName: workload.kubeconfig(s.t)}})
	s.create(&corev1.Secret{ObjectMeta: meta("signing"), Data: map[string][]byte{"key": []byte("whsec_" + base64.StdEncoding.EncodeToString(key))}})
	s.create(&corev1.ConfigMap{ObjectMeta: meta("addon"), Data: map[string]string{
		"addon.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: %s}\ndata: {by: policy}\n", s.namespace),
	}})
	s.cluster = &clusterv1.Cluster{ObjectMeta: meta(name)}
	s.cluster.Spec.Topology.ClassRef.Name, s.cluster.Spec.Topology.Version = "slipway", newVersion
	s.create(s.cluster)
}

// createPolicy creates a policy for the Cluster's upgrade. It waits for the webhook
// that validates it.
func (s *stage) createPolicy(name string, steps ...lifecyclev1.Step) {
	s.t.Helper()
	policy := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: steps}}},
	}
	s.eventually("policy "+name+" is taken", func() error { return s.Create(s.t.Context(), policy) })
}

// eventually waits for what other processes do.
func (s *stage) eventually(what string, check func() error) {
	s.t.Helper()
	poll.Until(s.t, what, check)
}

// callWebhooks has the API server call the webhooks of a replica for this namespace.
func (s *stage) callWebhooks(r *replica) {
	s.t.Helper()
	testenv.CallLifecycleWebhooks(s.t, s.Client, s.namespace, r.webhooks, r.ca)
}

// runs returns the LifecycleRuns by policy.
func (s *stage) runs() map[string][]lifecyclev1.LifecycleRun {
	s.t.Helper()
	list := &lifecyclev1.LifecycleRunList{}
	if err := s.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	byPolicy := map[string][]lifecyclev1.LifecycleRun{}
	for _, run := range list.Items {
		byPolicy[run.Spec.PolicyName] = append(byPolicy[run.Spec.PolicyName], run)
	}
	return byPolicy
}

// decide does what people do: approve what waits for it, and retry what has failed.
// While the program is gone it is not heard, and asked again.
func (s *stage) decide() {
	s.t.Helper()
	for _, runs := range s.runs() {
		for _, run := range runs {
			for _, progress := range run.Spec.Progress {
				var annotation string
				switch current := run.Step(progress.Name); {
				case current.Approval != nil && progress.Outcome == "":
					annotation = lifecyclev1.ApproveAnnotation
				case current.Job != nil && progress.Outcome == lifecyclev1.OutcomeFailed:
					annotation = lifecyclev1.RetryAnnotation
				default:
					continue
				}
				patch := client.MergeFrom(run.DeepCopy())
				run.Annotations = map[string]string{annotation: progress.Name}
				_ = s.Patch(s.t.Context(), &run, patch)
			}
		}
	}
}

// upgrade calls the hook as Cluster API does, until it lets the upgrade pass. When the
// replica was killed it is started again.
func (s *stage) upgrade(r *replica) {
	s.t.Helper()
	s.eventually("the hook passes", func() error {
		s.decide()
		if r.gone() {
			if !r.killed() {
				s.t.Fatal("the program has ended by itself")
			}
			r.start()
		}
		return r.passes(s.t.Context(), s.cluster)
	})
}

// expectJobs fails unless these Jobs ever were, each once, with one pod each.
func (s *stage) expectJobs(names ...string) {
	s.t.Helper()
	want := map[string]int{"Job last": 1, "pod of ": 1}
	for _, name := range names {
		want["Job "+name], want["pod of "+name] = 1, 1
	}
	// What comes last in a watch tells that all else was seen.
	s.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "last"}, Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: podSpec("none")}}})
	s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "last"}, Spec: podSpec("none")})
	s.eventually("all Jobs and pods are seen", func() error {
		got, err := all.kubelet.inNamespace(s.namespace)
		if err != nil {
			s.t.Fatal(err)
		}
		if got["Job last"] == 0 || got["pod of "] == 0 {
			return errors.New("not yet")
		}
		if !maps.Equal(got, want) {
			s.t.Errorf("there were %v, want %v", got, want)
		}
		return nil
	})
}

func podSpec(command string) corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "check", Image: "check", Command: []string{command}}}}
}

// expectRun fails unless there is one run of a policy, whose steps have succeeded.
func (s *stage) expectRun(policy string, steps int) *lifecyclev1.LifecycleRun {
	s.t.Helper()
	runs := s.runs()[policy]
	if len(runs) != 1 {
		s.t.Fatalf("%d runs of policy %s: %+v", len(runs), policy, runs)
	}
	run := &runs[0]
	succeeded := slices.DeleteFunc(slices.Clone(run.Spec.Progress), func(p lifecyclev1.StepProgress) bool { return p.Outcome != lifecyclev1.OutcomeSucceeded })
	if len(succeeded) != steps || len(run.Spec.Steps) != steps || run.Spec.Cancelled != "" || run.Spec.Attempt != 1 {
		s.t.Errorf("the run of policy %s is %+v", policy, run.Spec)
	}
	return run
}
