package openapi

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
)

// exampleText are believable values by the JSON name of a field.
var exampleText = map[string]string{
	"name":                              "my-cluster",
	"namespace":                         "default",
	"uid":                               "2f0c1f0e-6b52-4f0a-9d3c-6d8a4a1f2b10",
	"fromKubernetesVersion":             "v1.35.4",
	"toKubernetesVersion":               "v1.36.3",
	"kubernetesVersion":                 "v1.36.3",
	"fromControlPlaneKubernetesVersion": "v1.35.4",
	"fromWorkersKubernetesVersion":      "v1.35.4",
	"version":                           "v1.36.3",
	"clusterName":                       "my-cluster",
	"kind":                              "DockerMachineTemplate",
	"apiVersion":                        "infrastructure.cluster.x-k8s.io/v1beta2",
	"fieldPath":                         "spec.infrastructureRef",
	"patchType":                         string(hooksv1.JSONMergePatchType),
	"hook":                              "BeforeClusterCreate",
}

// exampleDepth bounds how deep fields are filled in. Deeper ones are shown only
// if they are always written.
const exampleDepth = 5

func exampleRequest(d *hook.Definition) json.RawMessage {
	request := d.NewRequest()
	fill(reflect.ValueOf(request).Elem(), 0)
	d.MarkRequest(request)
	return encodeExample(request)
}

func exampleResponse(d *hook.Definition) json.RawMessage {
	response := d.NewResponse()
	fill(reflect.ValueOf(response).Elem(), 0)
	d.MarkResponse(response)
	response.SetStatus(hooksv1.ResponseStatusSuccess)
	if blocking, ok := response.(hooksv1.RetryResponseObject); ok {
		blocking.SetRetryAfterSeconds(30)
		blocking.SetMessage("waiting for the backup to end")
	}
	return encodeExample(response)
}

// encodeExample returns nil for what cannot be encoded: a document without one
// example is better than none.
func encodeExample(object runtime.Object) json.RawMessage {
	data, err := wire.Encode(object)
	if err != nil {
		return nil
	}
	return data
}

var rawExtension = reflect.TypeFor[runtime.RawExtension]()

// fill sets the fields of a struct for which a believable value is known.
func fill(v reflect.Value, depth int) {
	if depth > exampleDepth || special(v.Type()) != nil {
		return
	}
	for field, value := range v.Fields() {
		name, optional, inline, skip := jsonField(field)
		if skip || !value.CanSet() {
			continue
		}
		if inline {
			fill(value, depth)
			continue
		}
		fillField(value, name, optional, depth)
	}
}

// tellKind gives an object of Cluster API its own kind.
func tellKind(value reflect.Value) {
	if value.Type().PkgPath() != reflect.TypeFor[clusterv1.Cluster]().PkgPath() {
		return
	}
	if object, ok := value.Addr().Interface().(runtime.Object); ok {
		object.GetObjectKind().SetGroupVersionKind(clusterv1.GroupVersion.WithKind(value.Type().Name()))
	}
}

func fillField(value reflect.Value, name string, optional bool, depth int) {
	switch value.Kind() {
	case reflect.String:
		if text, ok := exampleText[name]; ok && depth < 3 {
			value.SetString(text)
		}
	case reflect.Struct:
		if value.Type() == rawExtension {
			value.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DockerMachineTemplate","metadata":{"name":"my-cluster"}}`)}))
			return
		}
		if name != "status" && name != "spec" {
			fill(value, depth+1)
			tellKind(value)
		}
	case reflect.Slice:
		if optional || value.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		element := reflect.New(value.Type().Elem()).Elem()
		if element.Kind() == reflect.Pointer {
			element.Set(reflect.New(element.Type().Elem()))
			fill(element.Elem(), depth+1)
		} else if element.Kind() == reflect.Struct {
			fill(element, depth+1)
		}
		value.Set(reflect.Append(value, element))
	default:
	}
}
