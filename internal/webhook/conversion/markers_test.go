package conversion

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestMarkersOfBothVersions compares what markers say of the two versions of each kind. The API
// server validates a request by the rules of its own version, so a rule that one of them lacks
// is no rule at all.
func TestMarkersOfBothVersions(t *testing.T) {
	files, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// What the contracts name differently.
	names := map[string]string{".status.ready": ".status.initialization.provisioned"}
	compared := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		versions := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
		for i := range crd.Spec.Versions {
			versions[crd.Spec.Versions[i].Name] = &crd.Spec.Versions[i]
		}
		older, newer := versions["v1beta1"], versions["v1beta2"]
		if older == nil || newer == nil {
			continue
		}
		compared++
		if one, other := rulesOf(*older.Schema.OpenAPIV3Schema, ""), rulesOf(*newer.Schema.OpenAPIV3Schema, ""); !reflect.DeepEqual(one, other) {
			t.Errorf("%s: the rules of v1beta1 are\n%v\nand those of v1beta2\n%v", crd.Spec.Names.Kind, one, other)
		}
		columns := older.AdditionalPrinterColumns
		for i := range columns {
			if path, ok := names[columns[i].JSONPath]; ok {
				columns[i].JSONPath = path
			}
		}
		if !reflect.DeepEqual(columns, newer.AdditionalPrinterColumns) {
			t.Errorf("%s: the columns of v1beta1 are\n%v\nand those of v1beta2\n%v", crd.Spec.Names.Kind, columns, newer.AdditionalPrinterColumns)
		}
	}
	if compared < 7 {
		t.Errorf("compared %d kinds, want 7 or more", compared)
	}
}

// rulesOf returns the rules of a schema and of all below it, by path.
func rulesOf(s apiextensionsv1.JSONSchemaProps, path string) map[string][]string {
	rules := map[string][]string{}
	for _, rule := range s.XValidations {
		rules[path] = append(rules[path], rule.Rule+": "+rule.Message)
	}
	below := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range s.Properties {
		below["."+name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		below["[]"] = *s.Items.Schema
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		below["{}"] = *s.AdditionalProperties.Schema
	}
	for name, schema := range below {
		for at, found := range rulesOf(schema, path+name) {
			rules[at] = found
		}
	}
	return rules
}
