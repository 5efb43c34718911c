package clusters

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/templates"
)

// Class returns the ClusterClass of the release and its templates for a namespace, in the
// order in which to create them: the ClusterClass comes last.
func Class(namespace string) ([]client.Object, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(templates.Class)))
	var class, all []client.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return append(all, class...), nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("the ClusterClass of the release: %w", err)
		}
		object.SetNamespace(namespace)
		if object.GetKind() == "ClusterClass" {
			class = append(class, object)
			continue
		}
		all = append(all, object)
	}
}
