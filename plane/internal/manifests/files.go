package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FromFiles returns the objects of a provider whose YAML files, as written by
// controller-gen, are in fsys, together with its namespace and inventory. It
// does what the provider's kustomization does for a real installation: labels,
// name prefixes, and conversion by webhook for CRDs of more than one version.
func FromFiles(p Provider, fsys fs.FS) ([]Object, error) {
	var objs []Object
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		part, err := p.parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		objs = append(objs, part...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("manifests of %s: %w", p.Label(), err)
	}
	ns, err := p.namespace()
	if err != nil {
		return nil, err
	}
	inv, err := p.Inventory()
	if err != nil {
		return nil, err
	}
	return append(objs, ns, inv), nil
}

func (p Provider) parse(data []byte) ([]Object, error) {
	var objs []Object
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, err
		}
		if len(u.Object) == 0 || !Installable(u.GetKind()) {
			continue
		}
		obj, err := p.adapt(u)
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
}

func (p Provider) adapt(u *unstructured.Unstructured) (Object, error) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range p.Labels() {
		labels[k] = v
	}
	u.SetLabels(labels)
	switch u.GetKind() {
	case "CustomResourceDefinition":
		if err := convertByWebhook(u); err != nil {
			return Object{}, err
		}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		if prefix := p.Name + "-"; !strings.HasPrefix(u.GetName(), prefix) {
			u.SetName(prefix + u.GetName())
		}
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "status")
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return Object{}, err
	}
	return parseObject(p.Label(), raw)
}

func convertByWebhook(u *unstructured.Unstructured) error {
	versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
	if err != nil || len(versions) < 2 {
		return err
	}
	return unstructured.SetNestedMap(u.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             map[string]any{"service": map[string]any{"path": "/convert"}},
		},
	}, "spec", "conversion")
}

func (p Provider) namespace() (Object, error) {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   map[string]any{"name": p.Namespace, "labels": p.Labels()},
	})
	if err != nil {
		return Object{}, err
	}
	return parseObject(p.Label(), raw)
}
