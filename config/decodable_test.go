package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
)

// The values are JSON, as somebody sends them. What the API server admits of the others,
// Go has to decode; what is right it has to admit.
var (
	rightTimes = texts("2026-01-01T00:00:00Z", "2026-02-28T23:59:59+02:00", "2026-01-01T00:00:00-00:00", "1970-01-01T00:00:00Z",
		"2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456789Z")
	otherTimes = texts("2026-01-01t00:00:00Z", "2026-01-01T00:00:00z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00x5Z",
		"2026-01-01T00:00:00.1234567890123Z", "2026-01-01T23:59:60Z", "2016-12-31T23:59:60Z", "2016-12-31T23:59:60+00:00", "2026-01-01T24:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
		"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00-24:00", "2026-01-01T00:00:00+23:60", "2026-01-01T00:00:00+99:99", "2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00-0200",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "1000-01-01T00:00:00+01:00", "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-01:00", "2000-01-01T00:00:00+23:59", "2999-12-31T23:59:59-23:59", "12026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "",
		"2026-01-01T00:00:00.123456z", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.12345Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")

	rightQuantities = append(texts("0", "4", "1.5", "1.", ".5", "+1", "-1", "100m", "0.1m", "128974848", "129e6", "129M", "128974848000m", "123Mi", "8Gi", "1.5Gi", "7.5625Gi", "16384E6",
		"1e3", "1E3", "1e+3", "1e03", "1e-3", "1.5e3", "1k", "1T", "1P", "1E", "8Ei", "0.5Ti", "500u", "500n", "9223372036854775807", "9007199254740991Ki"),
		"4", "0", "8589934592", "-1")
	otherQuantities = append(texts("1e1.5", "1E1000", "1E+1000", "1E-1000", "1e.5", "1e+.5", "1e", "1K", "e3", ".", "", " 1", "1 ", "1i", "1e2147483647", "1e-2147483648", "1e4294967296", "1e99999999999999999999", "1e100", "1e99", "1e22",
		"1e21", "1e20", "99e18", "999e20", "1e19", "100000e15", "1000E", "999E", "99.9999999999E", "1000000P", "1000000000000000000000", "999999999999999999999.999999999", "999999999999999999999.9999999999",
		"123456789012345678901.123456789", "123456789012345678901e-1", "123456789012345678901e-2", "123456789e8", "999999999999999999999999m", "999999999999999999999999.999999m", "999999999999999999999999.9999999m",
		"999999999999999999999999999999n", "999999999999999999999999999999.9n", "9999999999999999999.999999999Ei", "8.123456789Ei", "1.1Ki", ".999999999Ei", "-.999999999Ei", ".123456789e18", ".1e17", ".999999999n",
		"0.0000000001", "1e-10", "00000000000000000000000000000000000000001", "1."+strings.Repeat("9", 1000), strings.Repeat("9", 1000), strings.Repeat("9", 1000)+"Ki", "000000e18", "000E"),
		"1.5", "1e20", "1e21", "1e30", "1e308", "9223372036854775808", "100000000000000000000", "1000000000000000000000")

	integers = []string{"0", "1", "3", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"-9223372036854775809", "1.0", "2e0", "1e9", "1e10", "1.5", "1e18", "1e19", "1e30", "1e308", "18446744073709551616"}
	strs = texts("", "a", "AA==", "AAA=", "AA=A", "A", "AA==AA==", "-_-_", "====", "AA==\n", "10s", "1h", "1e9h", "25%", "200%", "99999999999999999999%", "10.0.0.1", "::1", "\u0000", "\ufffd", "true", "Local",
		"2026-01-01T00:00:00Z")
)

func texts(values ...string) []string {
	var all []string
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		all = append(all, string(text))
	}
	return all
}

// randomQuantities have up to 32 digits, often zeros or nines, around the limits of
// suffixes and exponents.
func randomQuantities(n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string {
		pick := []string{"0", "9", "0123456789"}[random.IntN(3)]
		d := []byte{"0123456789"[random.IntN(10)]}
		for len(d) < n {
			d = append(d, pick[random.IntN(len(pick))])
		}
		return string(d[:n])
	}
	var all []string
	for range n {
		q := []string{"", "+", "-"}[random.IntN(3)] + digits(random.IntN(33))
		if random.IntN(2) == 0 {
			q += "." + digits(random.IntN(12))
		}
		suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
		if i := random.IntN(2 * len(suffixes)); i < len(suffixes) {
			q += suffixes[i]
		} else {
			q += fmt.Sprintf("e%d", random.IntN(40)-15)
		}
		all = append(all, q)
	}
	return texts(all...)
}

// leaf is a field with one value. within puts a value of it into its object.
type leaf struct {
	at     string
	schema apiextensionsv1.JSONSchemaProps
	within func(string) string
}

// leaves are the fields below a schema that have one value.
func leaves(l leaf) []leaf {
	var found []leaf
	below := func(at, opening, closing string, s apiextensionsv1.JSONSchemaProps) {
		found = append(found, leaves(leaf{l.at + at, s, func(value string) string { return l.within(opening + value + closing) }})...)
	}
	for name, p := range l.schema.Properties {
		below("."+name, fmt.Sprintf("{%q:", name), "}", p)
	}
	if s := l.schema.Items; s != nil && s.Schema != nil {
		below("[]", "[", "]", *s.Schema)
	}
	if s := l.schema.AdditionalProperties; s != nil && s.Schema != nil {
		below("{}", `{"key":`, "}", *s.Schema)
	}
	if len(found) == 0 && l.schema.Type != "object" && l.schema.Type != "array" {
		found = append(found, l)
	}
	return found
}

// validator is what the API server validates custom resources with: the schema and its
// rules.
func validator(t *testing.T, s apiextensionsv1.JSONSchemaProps) func(value any) bool {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&s, &internal, nil); err != nil {
		t.Fatal(err)
	}
	props, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	return func(value any) bool {
		if len(validation.ValidateCustomResource(nil, value, props)) > 0 {
			return false
		}
		if rules == nil {
			return true
		}
		errs, _ := rules.Validate(t.Context(), field.NewPath("value"), structural, value, nil, celconfig.RuntimeCELCostBudget)
		return len(errs) == 0
	}
}

// One object that Go cannot decode fails every List and every informer of its kind, in all
// namespaces. So Go decodes whatever the API server admits, into the type of the field,
// calculates with it, and what it encodes is admitted again, as when the manager copies the
// capacity of a host to its pool.
func TestGoDecodesWhatTheAPIServerAdmits(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, infrav1.AddToScheme, runtimev1.AddToScheme, lifecyclev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]int{}
	for _, crd := range append(definitions(t, config.FS, "crd/bases/*.yaml"), definitions(t, config.Lifecycle, "lifecycle/crd/bases/*.yaml")...) {
		for _, version := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			for _, l := range leaves(leaf{"", *version.Schema.OpenAPIV3Schema, func(value string) string { return value }}) {
				var is string
				var right, other []string
				switch {
				case l.schema.Format == "date-time" && microseconds(t, scheme, kind, l):
					is, right, other = "time in microseconds", texts("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.123456Z"), slices.Concat(otherTimes, rightTimes)
				case l.schema.Format == "date-time":
					is, right, other = "time", rightTimes, otherTimes
				case l.schema.XIntOrString && l.schema.Pattern != "":
					is, right, other = "quantity", rightQuantities, slices.Concat(randomQuantities(500), otherQuantities)
				case l.schema.XIntOrString:
					is, right, other = "integer or string", append(texts("25%"), "3"), slices.Concat(integers, strs)
				case l.schema.Type == "integer", l.schema.Type == "number":
					is, other = l.schema.Type, integers
				case l.schema.Type == "string":
					is, other = "string", strs
					for _, e := range l.schema.Enum {
						right = append(right, string(e.Raw))
					}
				case l.schema.Type == "boolean":
					is, right, other = l.schema.Type, []string{"true", "false"}, slices.Concat(strs, integers)
				default:
					t.Errorf("%s of %s has a schema that this test does not know", l.at, kind)
				}
				count[is]++
				admits := validator(t, l.schema)
				for _, value := range right {
					if !admits(decoded(t, value)) {
						t.Errorf("%s of %s is a %s and does not admit %s", l.at, kind, is, value)
					}
				}
				for _, value := range slices.Concat(other, right) {
					if v := decoded(t, value); admits(v) {
						if err := survives(t, scheme, kind, l, v, admits); err != nil {
							t.Errorf("%s of %s is a %s and admits %.60s: %v", l.at, kind, is, value, err)
						}
					}
				}
			}
		}
	}
	t.Log(count)
	for is, least := range map[string]int{"time": 20, "time in microseconds": 4, "quantity": 16, "integer or string": 12, "integer": 20, "string": 100, "boolean": 10} {
		if count[is] < least {
			t.Errorf("only %d fields are a %s, want %d", count[is], is, least)
		}
	}
}

func decoded(t *testing.T, value string) any {
	t.Helper()
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// microseconds says whether Go wants a fraction of six digits, which no schema shows.
func microseconds(t *testing.T, scheme *runtime.Scheme, kind schema.GroupVersionKind, l leaf) bool {
	t.Helper()
	object, err := scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	return kjson.UnmarshalCaseSensitivePreserveInts([]byte(l.within(`"2026-01-01T00:00:00Z"`)), object) != nil
}

// endless is a quantity that this test had better not decode.
var endless = regexp.MustCompile(`^"[^"]*[0-9.][eE][+-]?[0-9]{4,}"$`)

// survives decodes a value as a client does, calculates with it, and has it admitted again.
func survives(t *testing.T, scheme *runtime.Scheme, kind schema.GroupVersionKind, l leaf, value any, admits func(any) bool) error {
	t.Helper()
	stored, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if endless.Match(stored) {
		return errors.New("to decode it or to calculate with it takes the memory of its digits")
	}
	object, err := scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(l.within(string(stored))), object); err != nil {
		return fmt.Errorf("go does not decode it: %w", err)
	}
	if l.schema.XIntOrString && l.schema.Pattern != "" {
		var before, after resource.Quantity
		if err := json.Unmarshal(stored, &before); err != nil {
			return err
		}
		if dec := before.DeepCopy(); dec.AsDec().Scale() < -30 || dec.AsDec().UnscaledBig().BitLen() > 128 {
			return fmt.Errorf("it is a number of %d bits with %d zeros", dec.AsDec().UnscaledBig().BitLen(), -dec.AsDec().Scale())
		}
		again, err := json.Marshal(before)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(again, &after); err != nil {
			return err
		}
		if after.Cmp(before) != 0 {
			return fmt.Errorf("it is encoded as %s, another number", again)
		}
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	again, want := dig(decoded(t, string(encoded)), decoded(t, l.within(`null`)))
	if want && !admits(again) {
		return fmt.Errorf("it is encoded as %v, which is not admitted", again)
	}
	return nil
}

// dig finds in an encoded object the value at the one path of another, if it is there:
// what is empty may be left out.
func dig(encoded, path any) (any, bool) {
	switch p := path.(type) {
	case map[string]any:
		e, _ := encoded.(map[string]any)
		for key, rest := range p {
			child, found := e[key]
			if !found {
				return nil, false
			}
			return dig(child, rest)
		}
	case []any:
		e, _ := encoded.([]any)
		if len(e) == 0 {
			return nil, false
		}
		return dig(e[0], p[0])
	}
	return encoded, true
}
