package apply

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// errMissing says that a source, or its key, is not there.
var errMissing = errors.New("create it, or change the policy")

// content is what a source holds: values by keys, in their order.
type content struct {
	lifecyclev1.ManifestSource
	keys []string
	data map[string][]byte
}

// fetch reads all sources. The error wraps errMissing when one is not there.
func fetch(ctx context.Context, reader client.Reader, namespace string, sources []lifecyclev1.ManifestSource) ([]content, error) {
	contents := make([]content, 0, len(sources))
	for i, s := range sources {
		data, err := read(ctx, reader, namespace, s)
		if err != nil {
			return nil, fmt.Errorf("apply.sources[%d]: %w", i, err)
		}
		keys := slices.Sorted(maps.Keys(data))
		if s.Key != "" {
			if _, found := data[s.Key]; !found {
				return nil, fmt.Errorf("apply.sources[%d].key: %s %s/%s has no key %q; it has %q; %w", i, s.Kind, namespace, s.Name, s.Key, keys, errMissing)
			}
			keys = []string{s.Key}
		}
		contents = append(contents, content{s, keys, data})
	}
	return contents, nil
}

// digest of contents: lengths keep one value from passing for another's end.
func digest(contents []content) string {
	hash := sha256.New()
	write := func(part []byte) {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part)))
		_, _ = hash.Write(part)
	}
	for _, c := range contents {
		write([]byte(c.Kind))
		write([]byte(c.Name))
		_ = binary.Write(hash, binary.BigEndian, uint64(len(c.keys)))
		for _, key := range c.keys {
			write([]byte(key))
			write(c.data[key])
		}
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// decodeAll returns the objects of all sources, in the order of sources, keys and
// documents.
func decodeAll(contents []content) ([]object, error) {
	var objects []object
	for i, c := range contents {
		for _, key := range c.keys {
			found, err := parse(source{kind: c.Kind, name: c.Name, key: key}, c.data[key])
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
		return nil, fmt.Errorf("there is no %s %s; %w", s.Kind, key, errMissing)
	}
	return data, err
}
