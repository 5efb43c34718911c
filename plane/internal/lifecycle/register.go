package lifecycle

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
)

const (
	fieldManager = "slipway-plane"
	// startedAnnotation is when the program last came up. Writing it makes the
	// controller of ExtensionConfigs look at once instead of at its next turn.
	startedAnnotation = "slipway.dev/lifecycle-started"
)

// registration is the ExtensionConfig of the program.
type registration struct {
	client dynamic.ResourceInterface
	name   string
}

// register applies the ExtensionConfig that clusterctl would install, with the
// plane's CA.
func (c *Component) register(ctx context.Context) (*registration, error) {
	data, err := fs.ReadFile(config.Lifecycle, "lifecycle/extension/extensionconfig.yaml")
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &object.Object); err != nil {
		return nil, fmt.Errorf("read the ExtensionConfig: %w", err)
	}
	object.SetAnnotations(nil)
	ca, err := c.opts.CABundle()
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(object.Object, base64.StdEncoding.EncodeToString(ca), "spec", "clientConfig", "caBundle"); err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c.opts.Admin)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r := &registration{client: client.Resource(runtimev1.GroupVersion.WithResource("extensionconfigs")), name: object.GetName()}
	if _, err := r.client.Apply(ctx, r.name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return nil, fmt.Errorf("register slipway-lifecycle: %w", err)
	}
	return r, nil
}

// started has the extension discovered now.
func (r *registration) started(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, startedAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	_, err := r.client.Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
