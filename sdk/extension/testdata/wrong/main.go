// Command wrong registers a handler of another hook's types. It must not compile.
package main

import (
	"context"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

func main() {
	handler := func(context.Context, *hooksv1.BeforeClusterDeleteRequest) (*hooksv1.BeforeClusterDeleteResponse, error) {
		return nil, nil
	}
	_ = extension.Handle(nil, capi.BeforeClusterCreate, "wrong", handler)
}
