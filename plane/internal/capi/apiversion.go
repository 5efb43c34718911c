package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contracts are the contract versions this Cluster API understands, best first.
var contracts = []string{"v1beta2", "v1beta1"}

// apiVersionGetter returns a function that tells the API version to use for a
// kind, from the contract labels of its CRD. Upstream's is in an internal
// package. The reader's cache holds the CRDs' metadata.
func apiVersionGetter(c client.Reader) func(context.Context, schema.GroupKind) (string, error) {
	return func(ctx context.Context, gk schema.GroupKind) (string, error) {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		key := client.ObjectKey{Name: contract.CalculateCRDName(gk.Group, gk.Kind)}
		if err := c.Get(ctx, key, crd); err != nil {
			return "", fmt.Errorf("API version of kind %s: %w", gk, err)
		}
		v, err := latestVersion(crd.Labels)
		if err != nil {
			return "", fmt.Errorf("CRD %s: %w", key.Name, err)
		}
		return schema.GroupVersion{Group: gk.Group, Version: v}.String(), nil
	}
}

// latestVersion reads labels such as cluster.x-k8s.io/v1beta2: v1beta1_v1beta2.
func latestVersion(labels map[string]string) (string, error) {
	for _, c := range contracts {
		value := labels[clusterv1.GroupVersion.Group+"/"+c]
		if value == "" {
			continue
		}
		return slices.MaxFunc(strings.Split(value, "_"), version.CompareKubeAwareVersionStrings), nil
	}
	return "", fmt.Errorf("no label of the form %s/<contract version>", clusterv1.GroupVersion.Group)
}
