// Command gen narrows the CRDs that controller-gen wrote to what Go decodes. Run it by
// `make generate`, with the folders of the CRDs.
//
// One object that Go cannot decode fails every List and every informer of its kind, in all
// namespaces. The API server alone does not prevent that: format date-time admits a
// lower-case t, the pattern of controller-gen for a resource.Quantity admits 1e1.5, and an
// intstr.IntOrString admits integers of 64 bits.
//
// It imports nothing of this repository.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// timePattern admits what metav1.Time decodes and encodes again as a time: UTC of a year
// with four digits, or an offset in a year that is still between 1000 and 9999 in UTC.
// What is left of the ranges is checked by format date-time.
const timePattern = `^([1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,9})?Z|2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,9})?[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// quantityPattern admits quantities below 1e21 that resource.ParseQuantity decodes, and
// with each of them its canonical form, in which it is written again. A larger one has no
// canonical form with a suffix (1000E is encoded as 1), and one with a large exponent
// takes the memory of whoever compares it.
var quantityPattern = func() string {
	const number = `[0-9]{1,%d}(\.[0-9]{0,%d})?`
	forms := []string{
		`\.[0-9]{1,9}([KMGTPE]i|[numkMGTPE]|[eE]([+-]?0?[0-9]|\+?1[0-8]))?`,
		fmt.Sprintf(number, 21, 9) + `([eE]([+-]?00?|-0?[12]))?`,
		fmt.Sprintf(number, 19, 9) + `[KMGTPE]i`,
	}
	for _, row := range []struct {
		whole, fraction  int
		suffix, exponent string
	}{
		{18, 9, `k`, `\+?0?[1-3]`},
		{15, 9, `M`, `\+?0?[4-6]`},
		{12, 9, `G`, `\+?0?[7-9]`},
		{9, 9, `T`, `\+?1[0-2]`},
		{6, 9, `P`, `\+?1[3-5]`},
		{3, 9, `E`, `\+?1[6-8]`},
		{24, 6, `m`, `-0?[3-5]`},
		{27, 3, `u`, `-0?[6-8]`},
		{30, 0, `n`, `-0?9`},
	} {
		forms = append(forms, fmt.Sprintf(number+`(%s|[eE]%s)`, row.whole, row.fraction, row.suffix, row.exponent))
	}
	return `^[+-]?(` + strings.Join(forms, "|") + `)$`
}()

func main() {
	bounds := flag.String("bounds", "", "also write what the API takes of a Host's status to this file")
	flag.Parse()
	for _, folder := range flag.Args() {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		for _, file := range files {
			if err == nil {
				err = rewrite(file)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if *bounds == "" {
		return
	}
	if err := writeBounds(filepath.Join(flag.Arg(0), "infrastructure.slipway.dev_hosts.yaml"), *bounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rewrite(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	narrow(crd)
	if text, err = yaml.Marshal(crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// narrow adds to every schema below node what its API type cannot say. A time with a
// pattern has it from a marker, as those in microseconds do.
func narrow(node any) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			narrow(child)
		}
	case map[string]any:
		for _, child := range node {
			narrow(child)
		}
		switch {
		case node["format"] == "date-time" && node["pattern"] == nil:
			node["pattern"] = timePattern
		case node["x-kubernetes-int-or-string"] == true && node["pattern"] != nil:
			node["pattern"] = quantityPattern
		case node["x-kubernetes-int-or-string"] == true:
			node["minimum"], node["maximum"] = math.MinInt32, math.MaxInt32
		}
	}
}

// writeBounds writes the schema of the status of a CRD's storage version, without what only
// people read. The agent fits its report into it.
func writeBounds(file, out string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range crd.Spec.Versions {
		if !crd.Spec.Versions[i].Storage {
			continue
		}
		status := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["status"]
		// The manager writes these.
		delete(status.Properties, "conditions")
		delete(status.Properties, "phase")
		strip(&status)
		body, err := json.MarshalIndent(status, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(out, append(body, '\n'), 0o644)
	}
	return fmt.Errorf("%s: no storage version", file)
}

func strip(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description, schema.Format, schema.XListType, schema.XMapType, schema.XListMapKeys, schema.AnyOf = "", "", nil, nil, nil, nil
	for name, property := range schema.Properties {
		strip(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		strip(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		strip(schema.AdditionalProperties.Schema)
	}
}
