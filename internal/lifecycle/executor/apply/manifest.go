package apply

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// object is one object of a manifest and where it was found.
type object struct {
	*unstructured.Unstructured
	source source
}

// name returns kind, namespace and name for people.
func (o object) name() string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// first says whether others may need the object to be there.
func (o object) first() bool { return o.isCRD() || o.GroupVersionKind().GroupKind() == namespaceKind }

func (o object) isCRD() bool { return o.GroupVersionKind().GroupKind() == crdKind }

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// source is a document of a key of a ConfigMap or Secret.
type source struct {
	kind, name, key string
	// document counts from 1.
	document int
}

// secret says whether nothing of the content may be told.
func (s source) secret() bool { return s.kind == "Secret" }

// String names the source for people.
func (s source) String() string {
	return fmt.Sprintf("%s %s, key %s, document %d", s.kind, s.name, s.key, s.document)
}

// parse returns the objects of the YAML documents in data, items of lists one by
// one. Duplicate keys are an error. from.document is ignored.
func parse(from source, data []byte) ([]object, error) {
	var objects []object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for from.document = 1; ; from.document++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, withoutContent(from, err))
		}
		content, err := decode(document)
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

// decode returns a document; nil for an empty one.
func decode(document []byte) (map[string]any, error) {
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

var line = regexp.MustCompile(`line \d+`)

// withoutContent keeps the parser from quoting a Secret: only the line is told.
func withoutContent(from source, err error) error {
	if !from.secret() {
		return err
	}
	if at := line.FindString(err.Error()); at != "" {
		return fmt.Errorf("is no valid YAML at %s", at)
	}
	return errors.New("is no valid YAML")
}

// appendObjects appends the object, or the items of the list, that content is.
func appendObjects(objects []object, from source, content map[string]any) ([]object, error) {
	o := object{&unstructured.Unstructured{Object: content}, from}
	items, isList := content["items"].([]any)
	if !isList || !strings.HasSuffix(o.GetKind(), "List") {
		if err := check(o); err != nil {
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

// check refuses what cannot be applied, and drops what only the API server writes.
func check(o object) error {
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

// unique refuses an object that two documents define.
func unique(objects []object) error {
	type key struct {
		kind            schema.GroupKind
		namespace, name string
	}
	seen := map[key]source{}
	for _, o := range objects {
		k := key{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
		if other, found := seen[k]; found {
			return fmt.Errorf("%s is defined twice: in %s, and in %s", o.name(), other, o.source)
		}
		seen[k] = o.source
	}
	return nil
}
