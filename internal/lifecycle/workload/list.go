package workload

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PageSize is how many objects are read at once.
const PageSize = 250

// Each calls visit with every object of a kind that options select, page by page, in
// the order of namespaces and names. It stops at the first error. The API server may
// forget a list that takes minutes to read: the error is then ResourceExpired.
func (c *Cluster) Each(ctx context.Context, kind schema.GroupVersionKind, visit func(*unstructured.Unstructured) error, options ...client.ListOption) error {
	kind.Kind += "List"
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind)
		if err := c.List(ctx, page, append(options[:len(options):len(options)], client.Limit(PageSize), client.Continue(next))...); err != nil {
			return fmt.Errorf("list %s: %w", kind.GroupKind(), err)
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
