package cel_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/sdk/registry/cel"
)

// An expression over the object decides whether an extension is called for it.
func ExampleCompile() {
	production, err := cel.Compile(`object.metadata.labels[?"env"].orValue("") == "prod"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, env := range []string{"prod", "test"} {
		demo := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"env": env}}}
		fmt.Println(production(context.Background(), demo))
	}
	_, err = cel.Compile(`object.metadata.name`)
	fmt.Println(err == nil)
	// Output:
	// true <nil>
	// false <nil>
	// true
}
