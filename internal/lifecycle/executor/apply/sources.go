package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get

// load returns the objects of all sources, in the order of sources, keys and
// documents.
func load(ctx context.Context, reader client.Reader, namespace string, sources []lifecyclev1.ManifestSource) ([]object, error) {
	var objects []object
	for i, s := range sources {
		data, err := read(ctx, reader, namespace, s)
		if err != nil {
			return nil, fmt.Errorf("apply.sources[%d]: %w", i, err)
		}
		keys := slices.Sorted(maps.Keys(data))
		if s.Key != "" {
			if _, found := data[s.Key]; !found {
				return nil, fmt.Errorf("apply.sources[%d].key: %s %s/%s has no key %q; it has %q", i, s.Kind, namespace, s.Name, s.Key, keys)
			}
			keys = []string{s.Key}
		}
		for _, key := range keys {
			found, err := parse(source{kind: s.Kind, name: s.Name, key: key}, data[key])
			if err != nil {
				return nil, fmt.Errorf("apply.sources[%d]: %w", i, err)
			}
			objects = append(objects, found...)
		}
	}
	if len(objects) == 0 {
		return nil, errors.New("apply.sources: there is no object in them")
	}
	if err := unique(objects); err != nil {
		return nil, fmt.Errorf("apply.sources: %w", err)
	}
	return objects, nil
}

// read returns the data of a source by key.
func read(ctx context.Context, reader client.Reader, namespace string, s lifecyclev1.ManifestSource) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: namespace, Name: s.Name}
	var err error
	data := map[string][]byte{}
	if s.Kind == "Secret" {
		secret := &corev1.Secret{}
		err = reader.Get(ctx, key, secret)
		data = secret.Data
	} else {
		configMap := &corev1.ConfigMap{}
		err = reader.Get(ctx, key, configMap)
		maps.Copy(data, configMap.BinaryData)
		for k, v := range configMap.Data {
			data[k] = []byte(v)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s %s; create it, or change the policy", s.Kind, key)
	}
	return data, err
}
