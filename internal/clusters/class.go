package clusters

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

// CheckVariables refuses a variable, as NAME=VALUE, that a ClusterClass does not have. Values are checked by the API
// server. A class that has not been reconciled yet has the variables of its spec.
func CheckVariables(class *clusterv1.ClusterClass, variables []string) error {
	var known []string
	for i := range class.Status.Variables {
		known = append(known, class.Status.Variables[i].Name)
	}
	for i := range class.Spec.Variables {
		if name := class.Spec.Variables[i].Name; !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains(known, name) {
			slices.Sort(known)
			return invalid("--set", "ClusterClass %s has no variable %s; it has %s", class.Name, name, cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
	return nil
}
