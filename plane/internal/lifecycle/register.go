package lifecycle

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/plane/internal/pki"
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
	object *unstructured.Unstructured
	// ca that the ExtensionConfig has, PEM.
	ca []byte
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
	client, err := dynamic.NewForConfig(c.opts.Admin)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r := &registration{client: client.Resource(runtimev1.GroupVersion.WithResource("extensionconfigs")), object: object}
	ca, err := c.opts.CABundle()
	if err != nil {
		return nil, err
	}
	return r, r.trust(ctx, ca)
}

// trust has callers verify the program by a CA.
func (r *registration) trust(ctx context.Context, ca []byte) error {
	if bytes.Equal(ca, r.ca) {
		return nil
	}
	if err := unstructured.SetNestedField(r.object.Object, base64.StdEncoding.EncodeToString(ca), "spec", "clientConfig", "caBundle"); err != nil {
		return err
	}
	if _, err := r.client.Apply(ctx, r.object.GetName(), r.object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("register slipway-lifecycle: %w", err)
	}
	r.ca = ca
	return nil
}

// follow keeps the ExtensionConfig up with the plane's CA, which is renewed while the
// plane runs. The ticks say when to look.
func (c *Component) follow(ctx context.Context, r *registration, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		ca, err := c.opts.CABundle()
		if err == nil {
			err = r.trust(ctx, ca)
		}
		if err != nil && ctx.Err() == nil {
			klog.Background().WithName("lifecycle").Error(err, "The ExtensionConfig may not have the plane's CA, looking again", "after", pki.CheckInterval)
		}
	}
}

// started has the extension discovered now.
func (r *registration) started(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, startedAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	_, err := r.client.Patch(ctx, r.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
