package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/plane/internal/pki"
)

const (
	fieldManager = "slipway-plane"
	// startedAnnotation is when the program last came up. Writing it makes the
	// controller of ExtensionConfigs look at once instead of at its next turn.
	startedAnnotation = "slipway.dev/lifecycle-started"
)

// RegistrationOptions of a registration. All are required.
type RegistrationOptions struct {
	// Admin registers the extension.
	Admin *rest.Config
	// Manifest is the ExtensionConfig that clusterctl would install.
	Manifest []byte
	// CABundle returns the PEM that verifies the extension. It is asked again while
	// the plane runs.
	CABundle func() ([]byte, error)
}

// Registration is the ExtensionConfig of an extension.
type Registration struct {
	opts   RegistrationOptions
	client dynamic.ResourceInterface
	object *unstructured.Unstructured
	// ca that the ExtensionConfig has, PEM.
	ca []byte
}

// Register applies the ExtensionConfig with the plane's CA.
func Register(ctx context.Context, opts RegistrationOptions) (*Registration, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(opts.Manifest, &object.Object); err != nil {
		return nil, fmt.Errorf("read the ExtensionConfig: %w", err)
	}
	object.SetAnnotations(nil)
	client, err := dynamic.NewForConfig(opts.Admin)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r := &Registration{opts: opts, client: client.Resource(runtimev1.GroupVersion.WithResource("extensionconfigs")), object: object}
	ca, err := opts.CABundle()
	if err != nil {
		return nil, err
	}
	return r, r.trust(ctx, ca)
}

// trust has callers verify the extension by a CA.
func (r *Registration) trust(ctx context.Context, ca []byte) error {
	if bytes.Equal(ca, r.ca) {
		return nil
	}
	if err := unstructured.SetNestedField(r.object.Object, base64.StdEncoding.EncodeToString(ca), "spec", "clientConfig", "caBundle"); err != nil {
		return err
	}
	if _, err := r.client.Apply(ctx, r.object.GetName(), r.object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("register %s: %w", r.object.GetName(), err)
	}
	r.ca = ca
	return nil
}

// Keep is Follow as often as the plane looks after its certificates, until ctx ends.
func (r *Registration) Keep(ctx context.Context) {
	ticker := time.NewTicker(pki.CheckInterval)
	defer ticker.Stop()
	r.Follow(ctx, ticker.C)
}

// Follow keeps the ExtensionConfig up with the plane's CA, which is renewed while the
// plane runs. The ticks say when to look.
func (r *Registration) Follow(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		ca, err := r.opts.CABundle()
		if err == nil {
			err = r.trust(ctx, ca)
		}
		if err != nil && ctx.Err() == nil {
			klog.Background().WithName("registration").Error(err, "The ExtensionConfig may not have the plane's CA, looking again", "extensionConfig", r.object.GetName(), "after", pki.CheckInterval)
		}
	}
}

// Started has the extension discovered now.
func (r *Registration) Started(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, startedAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	_, err := r.client.Patch(ctx, r.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}
