// Command recorder calls the hook BeforeClusterCreate of the extensions in its input with Cluster
// API's own runtime client, and writes what each call does to its caller: "passes", "waits", "is an error".
//
// It is built by TestUpstreamTable of sdk/client as a module below the path of Cluster API, which may
// import Cluster API's internal packages.
package main

import (
	"context"
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/internal/runtime/client"
	"sigs.k8s.io/cluster-api/internal/runtime/registry"
)

// call is an extension, by the CA of its server.
type call struct {
	URL    string
	CA     []byte
	Policy runtimev1.FailurePolicy
}

// namespaces answers each Get with the zero value of a namespace, which a selector of all matches.
type namespaces struct {
	client.Client
	scheme *runtime.Scheme
}

func (n namespaces) Scheme() *runtime.Scheme { return n.scheme }
func (namespaces) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func main() {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	var calls []call
	must(json.NewDecoder(os.Stdin).Decode(&calls))
	effects := make([]string, 0, len(calls))
	for _, c := range calls {
		effects = append(effects, effect(c))
	}
	must(json.NewEncoder(os.Stdout).Encode(effects))
}

func effect(c call) string {
	ctx, hooks, scheme := context.Background(), catalog.New(), runtime.NewScheme()
	must(hooksv1.AddToCatalog(hooks))
	must(corev1.AddToScheme(scheme))
	must(clusterv1.AddToScheme(scheme))
	k, _, err := runtimeclient.New(ctx, runtimeclient.Options{Catalog: hooks, Registry: registry.New(), Client: namespaces{scheme: scheme}})
	must(err)
	must(k.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{{
		ObjectMeta: metav1.ObjectMeta{Name: "e"},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: c.URL, CABundle: c.CA}, NamespaceSelector: &metav1.LabelSelector{}},
		Status: runtimev1.ExtensionConfigStatus{Handlers: []runtimev1.ExtensionHandler{{
			Name: "h.e", RequestHook: runtimev1.GroupVersionHook{APIVersion: hooksv1.GroupVersion.String(), Hook: "BeforeClusterCreate"},
			TimeoutSeconds: 30, FailurePolicy: c.Policy,
		}}},
	}}}))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "d"}}
	response := &hooksv1.BeforeClusterCreateResponse{}
	switch err := k.CallAllExtensions(ctx, hooksv1.BeforeClusterCreate, cluster, &hooksv1.BeforeClusterCreateRequest{}, response); {
	case err != nil:
		return "is an error"
	case response.RetryAfterSeconds != 0:
		return "waits"
	}
	return "passes"
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
