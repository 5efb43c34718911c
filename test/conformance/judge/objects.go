package judge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// installed are the kinds a plane gets; pods and what serves them it has none of.
var installed = []string{
	"Namespace", "ServiceAccount", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// Decode reads YAML documents.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode the manifests: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Install creates the objects in the order of installed, with webhooks that call
// port, and waits until the API server serves the kinds.
func Install(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, port int, ca []byte) error {
	for _, kinds := range [][]string{installed[:1], installed[1:]} {
		var group errgroup.Group
		for _, object := range objects {
			if !slices.Contains(kinds, object.GetKind()) {
				continue
			}
			group.Go(func() error { return create(ctx, c, object.DeepCopy(), port, ca) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func create(ctx context.Context, c client.Client, object *unstructured.Unstructured, port int, ca []byte) error {
	if err := callByURL(object, fmt.Sprintf("https://127.0.0.1:%d", port), ca); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	err := c.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		err = redirect(ctx, c, object, port, ca)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	err = poll.Wait(func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && !established(object) {
			err = errors.New("it is not established")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s: %w", object.GetName(), err)
	}
	return nil
}

// redirect points the webhooks of an object that somebody installed at port. It keeps
// the rest.
func redirect(ctx context.Context, c client.Client, object *unstructured.Unstructured, port int, ca []byte) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	before := object.DeepCopy()
	if err := callByURL(object, fmt.Sprintf("https://127.0.0.1:%d", port), ca); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	return c.Update(ctx, object)
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
}

// callByURL puts a URL in the place of a Service, which needs pods, or of another URL.
func callByURL(object *unstructured.Unstructured, base string, ca []byte) error {
	rewrite := func(hook map[string]any) error {
		path, found, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !found {
			address, _, err := unstructured.NestedString(hook, "clientConfig", "url")
			if err != nil {
				return err
			}
			parsed, err := url.Parse(address)
			if err != nil {
				return err
			}
			path = parsed.Path
		}
		hook["clientConfig"] = map[string]any{"url": base + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
		return nil
	}
	switch object.GetKind() {
	case "CustomResourceDefinition":
		hook, found, err := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook")
		if err != nil || !found {
			return err
		}
		if err := rewrite(hook); err != nil {
			return err
		}
		return unstructured.SetNestedMap(object.Object, hook, "spec", "conversion", "webhook")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, hook := range hooks {
			hook, ok := hook.(map[string]any)
			if !ok {
				return errors.New("a webhook is no object")
			}
			if err := rewrite(hook); err != nil {
				return err
			}
		}
		return unstructured.SetNestedSlice(object.Object, hooks, "webhooks")
	}
	return nil
}
