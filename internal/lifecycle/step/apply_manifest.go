package step

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// errMissingSource says that a source, or its key, is not there.
var errMissingSource = errors.New("create it, or change the policy")

// sourceContent is the content of a source: values by keys, in their order.
type sourceContent struct {
	lifecyclev1.ManifestSource
	keys []string
	data map[string][]byte
}

// fetchSources reads all sources. The error wraps errMissing when one is not there.
func fetchSources(ctx context.Context, reader client.Reader, namespace string, sources []lifecyclev1.ManifestSource) ([]sourceContent, error) {
	contents := make([]sourceContent, 0, len(sources))
	for i, s := range sources {
		data, err := readSource(ctx, reader, namespace, s)
		if err != nil {
			return nil, fmt.Errorf("apply.sources[%d]: %w", i, err)
		}
		keys := slices.Sorted(maps.Keys(data))
		if s.Key != "" {
			if _, found := data[s.Key]; !found {
				return nil, fmt.Errorf("apply.sources[%d].key: %s %s/%s has no key %q; it has %q; %w", i, s.Kind, namespace, s.Name, s.Key, keys, errMissingSource)
			}
			keys = []string{s.Key}
		}
		contents = append(contents, sourceContent{s, keys, data})
	}
	return contents, nil
}

// digestOf of contents: lengths keep one value from passing for another's end.
func digestOf(contents []sourceContent) string {
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

// decodeSources returns the objects of all sources, in the order of sources, keys and
// documents.
func decodeSources(contents []sourceContent) ([]manifestObject, error) {
	var objects []manifestObject
	for i, c := range contents {
		for _, key := range c.keys {
			found, err := parseManifest(manifestSource{kind: c.Kind, name: c.Name, key: key}, c.data[key])
			if err != nil {
				return nil, fmt.Errorf("apply.sources[%d]: %w", i, err)
			}
			objects = append(objects, found...)
		}
	}
	if len(objects) == 0 {
		return nil, errors.New("apply.sources: there is no object in them")
	}
	if err := checkUnique(objects); err != nil {
		return nil, fmt.Errorf("apply.sources: %w", err)
	}
	return objects, nil
}

// readSource returns the data of a source by key.
func readSource(ctx context.Context, reader client.Reader, namespace string, s lifecyclev1.ManifestSource) (map[string][]byte, error) {
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
		return nil, fmt.Errorf("there is no %s %s; %w", s.Kind, key, errMissingSource)
	}
	return data, err
}

// manifestObject is one object of a manifest and where it was found.
type manifestObject struct {
	*unstructured.Unstructured
	source manifestSource
}

// name returns kind, namespace and name for people.
func (o manifestObject) name() string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// first says whether others may need the object to be there.
func (o manifestObject) first() bool {
	return o.isCRD() || o.GroupVersionKind().GroupKind() == namespaceKind
}

func (o manifestObject) isCRD() bool { return o.GroupVersionKind().GroupKind() == crdKind }

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// manifestSource is a document of a key of a ConfigMap or Secret.
type manifestSource struct {
	kind, name, key string
	// document counts from 1.
	document int
}

// secret says whether the content must not be quoted.
func (s manifestSource) secret() bool { return s.kind == "Secret" }

// String names the source for people.
func (s manifestSource) String() string {
	return fmt.Sprintf("%s %s, key %s, document %d", s.kind, s.name, s.key, s.document)
}

// parseManifest returns the objects of the YAML documents in data, items of lists one by
// one. Duplicate keys are an error. from.document is ignored.
func parseManifest(from manifestSource, data []byte) ([]manifestObject, error) {
	var objects []manifestObject
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for from.document = 1; ; from.document++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, withoutContent(from, err))
		}
		content, err := decodeDocument(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, withoutContent(from, err))
		}
		if content == nil {
			continue
		}
		if objects, err = appendObjects(objects, from, content); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	}
}

// decodeDocument returns a document; nil for an empty one.
func decodeDocument(document []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, err
	}
	switch content := content.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return content, nil
	}
	return nil, errors.New("is no object")
}

var lineNumber = regexp.MustCompile(`line \d+`)

// withoutContent keeps the parser from quoting a Secret: only the line is reported.
func withoutContent(from manifestSource, err error) error {
	if !from.secret() {
		return err
	}
	if at := lineNumber.FindString(err.Error()); at != "" {
		return fmt.Errorf("is no valid YAML at %s", at)
	}
	return errors.New("is no valid YAML")
}

// appendObjects appends the object, or the items of the list, that content is.
func appendObjects(objects []manifestObject, from manifestSource, content map[string]any) ([]manifestObject, error) {
	o := manifestObject{&unstructured.Unstructured{Object: content}, from}
	items, isList := content["items"].([]any)
	if !isList || !strings.HasSuffix(o.GetKind(), "List") {
		if err := checkObject(o); err != nil {
			return nil, err
		}
		return append(objects, o), nil
	}
	for i, item := range items {
		content, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is no object", i)
		}
		if element := strings.TrimSuffix(o.GetKind(), "List"); element != "" && content["kind"] == nil {
			content["kind"], content["apiVersion"] = element, o.GetAPIVersion()
		}
		var err error
		if objects, err = appendObjects(objects, from, content); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return objects, nil
}

// checkObject refuses what cannot be applied, and drops what only the API server writes.
func checkObject(o manifestObject) error {
	if o.GetKind() == "" || o.GetAPIVersion() == "" {
		return errors.New("apiVersion and kind must be set")
	}
	if _, err := schema.ParseGroupVersion(o.GetAPIVersion()); err != nil {
		return fmt.Errorf("apiVersion: %w", err)
	}
	if _, ok := o.Object["metadata"].(map[string]any); !ok || o.GetName() == "" {
		return fmt.Errorf("%s: metadata.name must be set; generateName cannot be applied twice", o.GetKind())
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return nil
}

// checkUnique refuses an object that two documents define.
func checkUnique(objects []manifestObject) error {
	type key struct {
		kind            schema.GroupKind
		namespace, name string
	}
	seen := map[key]manifestSource{}
	for _, o := range objects {
		k := key{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
		if other, found := seen[k]; found {
			return fmt.Errorf("%s is defined twice: in %s, and in %s", o.name(), other, o.source)
		}
		seen[k] = o.source
	}
	return nil
}
