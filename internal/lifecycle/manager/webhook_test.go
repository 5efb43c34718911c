package manager_test

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
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
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
func (e *engine) callWebhooks(t *testing.T, namespace string) {
	t.Helper()
	testenv.CallLifecycleWebhooks(t, env.Client, namespace, e.webhooks, e.ca)
}

// Every policy of templates/policies passes the webhook, which calls what is wrong
// with one by its field.
func TestTemplatesOfPolicies(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	startEngine(t, namespace).callWebhooks(t, namespace)
	eventually(t, "the webhook is called", func() error { return refused(t, namespace) })
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
