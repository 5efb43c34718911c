package openapi_test

import (
	"fmt"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// Any catalog has a document, also one with hooks of one's own.
func ExampleForCatalog() {
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		fmt.Println(err)
		return
	}
	document := openapi.ForCatalog(openapi.Info{Title: "Hooks of Cluster API", Version: "v1.14.2"}, catalog)
	operation := document.Paths["/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/{name}"].Post
	fmt.Println(len(document.Paths), operation.OperationID, operation.Blocking)
	// Output: 17 v1alpha1BeforeClusterCreate true
}

// A gate compares the document of now with the one that was published.
func ExampleDiff() {
	published := openapi.New(openapi.Info{}, []*hook.Definition{capi.BeforeClusterCreate.Definition(), capi.BeforeClusterDelete.Definition()})
	current := openapi.New(openapi.Info{}, []*hook.Definition{capi.BeforeClusterCreate.Definition(), capi.UpdateMachine.Definition()})
	difference := openapi.Diff(published, current)
	fmt.Println(difference.Breaking)
	fmt.Println(difference.Additions)
	// Output:
	// [/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterdelete/{name}: the hook version was removed]
	// [/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/{name}: the hook version was added]
}
