package registry_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// An ExtensionConfig registers its handlers for the objects that it selects.
func ExampleRegistry_Match() {
	name := capi.BeforeClusterCreate.Definition().Name
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "gates", Annotations: map[string]string{registry.ObjectSelectorAnnotation: "env=prod"}},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://gates.example.com"}},
		Status: runtimev1.ExtensionConfigStatus{Handlers: []runtimev1.ExtensionHandler{{
			Name:        "quota.gates",
			RequestHook: runtimev1.GroupVersionHook{APIVersion: hook.APIVersion(name), Hook: name.Hook},
		}}},
	}
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	handlers := registry.New(registry.Options{})
	if err := handlers.WarmUp(entry); err != nil {
		fmt.Println(err)
		return
	}
	for _, env := range []string{"prod", "test"} {
		demo := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", Labels: map[string]string{"env": env}}}
		matching, err := handlers.Match(context.Background(), name.GroupHook(), demo)
		fmt.Println(env, len(matching), err)
	}
	// Output:
	// prod 1 <nil>
	// test 0 <nil>
}
