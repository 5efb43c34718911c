package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/templates"
)

// documents returns the objects of a YAML file.
func documents(t *testing.T, files fs.FS, name string) []*unstructured.Unstructured {
	t.Helper()
	data, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, object)
	}
}

// callWebhooks has the API server call a replica's webhooks for one namespace.
func (e *replica) callWebhooks(t *testing.T, namespace string) {
	t.Helper()
	testenv.CallLifecycleWebhooks(t, env.Client, namespace, e.webhooks, e.ca)
}

// Every policy of templates/policies passes the webhook, which calls what is wrong
// with one by its field.
func TestTemplatesOfPolicies(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	startEngine(t, namespace).callWebhooks(t, namespace)
	poll.Until(t, "the webhook is called", func() error { return refused(t, namespace) })
	names, err := fs.Glob(templates.Policies, "policies/*.yaml")
	if err != nil || len(names) < 5 {
		t.Fatalf("templates: %v, %v", names, err)
	}
	for _, name := range names {
		policies := 0
		for _, object := range documents(t, templates.Policies, name) {
			object.SetNamespace(namespace)
			if err := env.Client.Create(t.Context(), object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if object.GetKind() == "LifecyclePolicy" {
				policies++
			}
		}
		if policies != 1 {
			t.Errorf("%s holds %d policies, want one", name, policies)
		}
	}
}

// refused is nil when a policy with a faulty schedule is refused.
func refused(t *testing.T, namespace string) error {
	policy := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "faulty"},
		Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{
			Hook:  lifecyclev1.BeforeClusterUpgrade,
			Steps: []lifecyclev1.Step{{Name: "w", Window: &lifecyclev1.WindowStep{Schedule: "now and then", DurationSeconds: 60}}},
		}}},
	}
	err := env.Client.Create(t.Context(), policy, client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.hooks[0].steps[0].window.schedule") {
		return fmt.Errorf("creating it says %w", err)
	}
	return nil
}

// A plane serves no Jobs: a policy that wants one there is refused at once, and one that
// came by another way fails at once, before it has waited for anything.
func TestAJobThatTheManagementClusterDoesNotServe(t *testing.T) {
	testenv.Skip(t)
	plane := env.Without(t, "batch/v1")
	namespace := plane.Namespace(t)
	spec := runtime.RawExtension{Raw: []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}`)}
	policy := func(name string, target lifecyclev1.Target) *lifecyclev1.LifecyclePolicy {
		return &lifecyclev1.LifecyclePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{
				Hook: lifecyclev1.BeforeClusterUpgrade, Steps: []lifecyclev1.Step{{Name: "smoke", Job: &lifecyclev1.JobStep{Target: target, Spec: spec}}},
			}}},
		}
	}
	if err := plane.Client.Create(t.Context(), policy("before", lifecyclev1.TargetManagement)); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
		Spec:       clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "slipway"}, Version: "v1.36.3"}},
	}
	if err := plane.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	run := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		}}},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: cluster.Name, PolicyName: "before", PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce, Hook: lifecyclev1.BeforeClusterUpgrade, Attempt: 1,
			Request: lifecyclev1.RunRequest{FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: "v1.36.3"},
			Steps:   policy("", lifecyclev1.TargetManagement).Spec.Hooks[0].Steps,
		},
	}
	if err := plane.Client.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	e := startEngineAs(t, plane.Config, namespace, nil)
	poll.Until(t, "the run fails, and says why", func() error {
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
			return err
		}
		if run.Status.Phase != lifecyclev1.RunFailed || !strings.Contains(run.Status.Message, "the management cluster serves no Jobs (batch/v1)") {
			return fmt.Errorf("phase %s: %s", run.Status.Phase, run.Status.Message)
		}
		return nil
	})
	if failures := run.Progress("smoke").Failures; failures != 1 {
		t.Errorf("it failed after %d attempts", failures)
	}

	testenv.CallLifecycleWebhooks(t, plane.Client, namespace, e.webhooks, e.ca)
	poll.Until(t, "such a policy is refused", func() error {
		err := plane.Client.Create(t.Context(), policy("refused", lifecyclev1.TargetManagement), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.hooks[0].steps[0].job.target") || !strings.Contains(err.Error(), "serves no Jobs") {
			return fmt.Errorf("creating it says %w", err)
		}
		return nil
	})
	if err := plane.Client.Create(t.Context(), policy("elsewhere", lifecyclev1.TargetWorkload)); err != nil {
		t.Errorf("a Job in the workload cluster is refused: %v", err)
	}
}
