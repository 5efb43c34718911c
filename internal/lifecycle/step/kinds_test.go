package step

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Each kind of the API is registered, and in the rule of the CRD that one of them must be set.
func TestEveryStepOfTheAPIHasAKind(t *testing.T) {
	var fields []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[lifecyclev1.Step]()) {
		if !strings.HasSuffix(field.Type.String(), "Step") {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, name)
		s := &lifecyclev1.Step{}
		reflect.ValueOf(s).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		if kind := Of(s); kind.Name() != name {
			t.Errorf("a step with %s is of kind %q: its kind is not registered", name, kind.Name())
		}
		if FactsOf(s).Doing == "" {
			t.Errorf("the kind %s does not say what it does", name)
		}
	}
	var names []string
	for _, kind := range Kinds() {
		names = append(names, kind.Name())
	}
	if !slices.Equal(names, fields) {
		t.Errorf("the kinds are %q, want those of the API, in its order: %q", names, fields)
	}
	read := func(name string) string {
		data, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(data)), " ")
	}
	rule := "exactly one of " + strings.Join(fields[:len(fields)-1], ", ") + " and " + fields[len(fields)-1] + " must be set"
	if !strings.Contains(read("config/lifecycle/crd/bases/lifecycle.slipway.dev_lifecyclepolicies.yaml"), rule) {
		t.Errorf("the rule of Step in the API does not say %q", rule)
	}
}
