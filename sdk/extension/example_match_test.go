package extension_test

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// A handler that has a say about clusters of production that are not called demo.
func ExampleWithObjectSelector() {
	server, err := extension.New(extension.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = extension.Handle(server, capi.BeforeClusterCreate, "quota", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		fmt.Println("called")
		return nil, nil
	},
		extension.WithObjectSelector(labels.SelectorFromSet(labels.Set{"environment": "production"})),
		extension.WithMatch(func(_ context.Context, request runtime.Object) bool {
			create, ok := request.(*hooksv1.BeforeClusterCreateRequest)
			return ok && !strings.HasPrefix(create.Cluster.Name, "demo")
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(server, "prod") // it has no label
	// Output: 200 {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","retryAfterSeconds":0}
}
