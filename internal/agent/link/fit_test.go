package link

import (
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
)

// statusSchema is the schema of the status as the API server has it.
func statusSchema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := config.FS.ReadFile("crd/bases/infrastructure.slipway.dev_hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			status := v.Schema.OpenAPIV3Schema.Properties["status"]
			delete(status.Properties, "conditions") // The manager writes these.
			delete(status.Properties, "phase")
			return &status
		}
	}
	t.Fatal("no storage version")
	return nil
}

// validator judges a status as the API server does.
func validator(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) func(infrav1.HostStatus) field.ErrorList {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	v, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return func(s infrav1.HostStatus) field.ErrorList {
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var object any
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatal(err)
		}
		return validation.ValidateCustomResource(field.NewPath("status"), object, v)
	}
}

// valid is a value that the API takes, as far as one can be made without knowing the field.
func valid(s *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(s.Enum) > 0:
		var v any
		_ = json.Unmarshal(s.Enum[0].Raw, &v)
		return v
	case s.XIntOrString:
		return "1Gi"
	case strings.Contains(s.Pattern, `\.[0-9]{6}Z`):
		return "2026-01-02T03:04:05.000006Z"
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case strings.Contains(s.Pattern, "sha256"):
		return "sha256:" + strings.Repeat("a", 64)
	case s.Pattern != "":
		return "0302"
	}
	switch s.Type {
	case "object":
		object := map[string]any{}
		for name, p := range s.Properties {
			object[name] = valid(&p)
		}
		if s.AdditionalProperties != nil {
			object["cpu"] = valid(s.AdditionalProperties.Schema)
		}
		return object
	case "array":
		return []any{valid(s.Items.Schema)}
	case "integer":
		return 1
	case "boolean":
		return true
	}
	return "x"
}

// tooMuch is a value just beyond what the API takes; nil for a field without a limit.
func tooMuch(s *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case s.MaxItems != nil:
		list := []any{}
		for range *s.MaxItems + 1 {
			list = append(list, valid(s.Items.Schema))
		}
		return list
	case s.MaxLength != nil:
		return strings.Repeat("x", int(*s.MaxLength)+1)
	case len(s.Enum) > 0:
		return "Unknown"
	case s.XIntOrString:
		return "5000E"
	case s.Maximum != nil:
		return int64(*s.Maximum) + 1
	case s.Minimum != nil:
		return int64(*s.Minimum) - 2 // One less may be the zero value, which is left out.
	case strings.Contains(s.Pattern, `\.[0-9]{6}Z`):
		return "0999-01-02T03:04:05.000006Z"
	case s.Format == "date-time":
		return "0999-01-02T03:04:05Z"
	case s.Pattern != "":
		return "no such form"
	}
	return nil
}

// fields calls visit with the path of each field below a schema, and with how to put a value
// there into an object that is valid otherwise.
func fields(s *apiextensionsv1.JSONSchemaProps, path string, wrap func(any) any, visit func(path string, s *apiextensionsv1.JSONSchemaProps, wrap func(any) any)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		inside := func(v any) any {
			object := valid(s).(map[string]any)
			object[name] = v
			return wrap(object)
		}
		visit(path+"."+name, &p, inside)
		fields(&p, path+"."+name, inside, visit)
	}
	if s.Items != nil {
		item := func(v any) any { return wrap([]any{v}) }
		visit(path+"[]", s.Items.Schema, item)
		fields(s.Items.Schema, path+"[]", item, visit)
	}
	if s.AdditionalProperties != nil {
		visit(path+"{}", s.AdditionalProperties.Schema, func(v any) any { return wrap(map[string]any{"cpu": v}) })
	}
}

// Each field of the status, one after the other, has one item, one character or one number more than
// the API takes, or a value of another form. The report arrives, and has everything else.
func TestEveryFieldAtItsLimitPlusOne(t *testing.T) {
	schema := statusSchema(t)
	judge := validator(t, schema)
	tried, visited := 0, map[string]bool{}
	fields(schema, "", func(v any) any { return v }, func(path string, s *apiextensionsv1.JSONSchemaProps, wrap func(any) any) {
		visited[path] = true
		bad := tooMuch(s)
		if bad == nil && (s.Type == "string" || s.Type == "array") {
			t.Errorf("%s has no limit", path)
		}
		if bad == nil || strings.HasPrefix(path, ".omitted") {
			return
		}
		body, err := json.Marshal(wrap(bad))
		if err != nil {
			t.Fatal(err)
		}
		status := infrav1.HostStatus{}
		if err := json.Unmarshal(body, &status); err != nil {
			// Such a number or time has no place in the type.
			return
		}
		status.Omitted = nil
		if len(judge(status)) == 0 && s.XIntOrString {
			return // The type writes another quantity.
		}
		if len(judge(status)) == 0 {
			t.Errorf("%s: %.80v is no more than the API takes: the test does not know this kind of limit", path, bad)
			return
		}
		tried++
		fitted, err := fit(&status)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if errs := judge(*fitted); len(errs) > 0 {
			t.Errorf("%s: the API refuses the report: %v", path, errs)
		}
		if fitted.BootID == "" || fitted.CleanProof == nil && !strings.HasPrefix(path, ".cleanProof") || fitted.Inventory.MachineID == "" {
			t.Errorf("%s: the rest of the report is missing: %+v", path, fitted)
		}
		_, isText := bad.(string)
		isCut := isText && s.MaxLength != nil && len(fitted.Omitted) == 0
		if len(fitted.Omitted) != 1 && !isCut {
			t.Errorf("%s: omitted is %v, want one field", path, fitted.Omitted)
		}
	})
	if tried < 60 {
		t.Errorf("%d fields were tried; the test does not see most of them", tried)
	}
	for path := range reported(reflect.TypeFor[infrav1.HostStatus](), "") {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "."), ".")
		if top, _, _ = strings.Cut(top, "["); !visited[path] && top != "conditions" && top != "phase" { // The manager writes these.
			t.Errorf("%s of the type was not visited", path)
		}
	}
}

// reported are the paths of all fields of a type as JSON has them, like those of fields.
func reported(t reflect.Type, path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		inside := func(t reflect.Type, path string) bool {
			for p := range reported(t, path) {
				if !yield(p) {
					return false
				}
			}
			return true
		}
		switch t.Kind() {
		case reflect.Pointer:
			inside(t.Elem(), path)
		case reflect.Slice:
			if t.Elem().Kind() != reflect.Uint8 && yield(path+"[]") {
				inside(t.Elem(), path+"[]")
			}
		case reflect.Map:
			yield(path + "{}")
		case reflect.Struct:
			if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
				return // A text or a number in JSON.
			}
			for f := range t.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				at := path
				if name != "" {
					if at += "." + name; !yield(at) {
						return
					}
				}
				if !inside(f.Type, at) {
					return
				}
			}
		default: // It has no fields.
		}
	}
}

func TestTheImportantOnesStay(t *testing.T) {
	status := infrav1.HostStatus{ObservedOperation: &infrav1.ObservedOperation{ID: "o", ClaimID: "c", Phase: infrav1.HostDesiredReset, State: infrav1.OperationRunning}}
	for i := range 70 {
		status.Addresses = append(status.Addresses, address(fmt.Sprintf("10.0.0.%d", i)))
		status.ObservedOperation.Steps = append(status.ObservedOperation.Steps, infrav1.OperationStep{Name: fmt.Sprint(i), StartTime: now})
	}
	fitted, err := fit(&status)
	if err != nil {
		t.Fatal(err)
	}
	if len(fitted.Addresses) != 64 || fitted.Addresses[0].Address != "10.0.0.0" {
		t.Errorf("%d addresses, the first %s: want the first 64", len(fitted.Addresses), fitted.Addresses[0].Address)
	}
	if steps := fitted.ObservedOperation.Steps; len(steps) != 64 || steps[63].Name != "69" {
		t.Errorf("%d steps, the last %s: want the last 64", len(steps), steps[len(steps)-1].Name)
	}
	want := []infrav1.HostOmission{{Field: "addresses", Count: 6}, {Field: "observedOperation.steps", Count: 6}}
	if !slices.Equal(fitted.Omitted, want) {
		t.Errorf("omitted %v, want %v", fitted.Omitted, want)
	}
}

// An API server of another version, or an admission policy, refuses one part of the report: all
// others arrive, and the Lease says what is missing.
func TestARefusedPartTakesNothingWithIt(t *testing.T) {
	schema := statusSchema(t)
	body, err := json.Marshal(valid(schema))
	if err != nil {
		t.Fatal(err)
	}
	whole := infrav1.HostStatus{}
	if err := json.Unmarshal(body, &whole); err != nil {
		t.Fatal(err)
	}
	for _, refuses := range parts {
		for kind, answer := range refusals("status." + refuses.field) {
			t.Run(refuses.field+"/"+kind, func(t *testing.T) {
				t.Parallel()
				server := &refusing{refuses: refuses, with: answer}
				r := newReporter(server, "ns", "h", slog.New(slog.DiscardHandler), func() time.Duration { return time.Second })
				told := ""
				r.onRefused = func(s string) { told = s }
				r.set(whole)
				if err := r.apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				want, err := fit(&whole)
				if err != nil {
					t.Fatal(err)
				}
				refuses.clear(want)
				if server.stored == nil || !same(server.stored, want) {
					t.Errorf("the Host has\n%+v, want\n%+v", server.stored, want)
				}
				if !strings.HasPrefix(told, refuses.field+": ") {
					t.Errorf("the Lease says %q, want the field %s", told, refuses.field)
				}
				server.refuses = part{}
				if err := r.apply(t.Context()); err != nil || told != "" {
					t.Errorf("after the API took it the Lease says %q (%v)", told, err)
				}
			})
		}
	}
}

// A field that is no part cannot be dropped: an API that lacks it, or refuses it, would get no report at all.
func TestEveryFieldIsAPart(t *testing.T) {
	schema := statusSchema(t)
	body, err := json.Marshal(valid(schema))
	if err != nil {
		t.Fatal(err)
	}
	whole := &infrav1.HostStatus{}
	if err := json.Unmarshal(body, whole); err != nil {
		t.Fatal(err)
	}
	for name := range schema.Properties {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.field == name }) {
			t.Errorf("status.%s cannot be dropped", name)
		}
	}
	for _, p := range parts {
		p.clear(whole)
	}
	if !same(whole, &infrav1.HostStatus{}) {
		t.Errorf("without its parts a report is %+v", whole)
	}
}

// The kernel's text may be of any bytes.
func TestTextThatIsNotUTF8(t *testing.T) {
	const text = "a\xff\x00\xc3\u202e"
	fitted, err := fit(&infrav1.HostStatus{
		Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: strings.Repeat(text, 200)}},
		Residue:   []string{text}, Inventory: infrav1.HostInventory{KernelVersion: text, OperatingSystem: text},
		Node: &infrav1.HostNode{Name: text, HostName: text},
	})
	if err != nil {
		t.Fatal(err)
	}
	if errs := validator(t, statusSchema(t))(*fitted); len(errs) > 0 {
		t.Errorf("the API refuses %v", errs)
	}
	if len(fitted.Addresses) != 1 || len(fitted.Residue) != 1 || fitted.Node == nil {
		t.Errorf("the report is %+v", fitted)
	}
}

func TestAReportThatIsRefusedWholeIsTold(t *testing.T) {
	server := &refusing{refuses: part{clear: func(s *infrav1.HostStatus) { *s = infrav1.HostStatus{BootID: "never"} }}, with: refusals("spec")["names no part"]}
	r := newReporter(server, "ns", "h", slog.New(slog.DiscardHandler), func() time.Duration { return time.Second })
	told := ""
	r.onRefused = func(s string) { told = s }
	r.set(infrav1.HostStatus{BootID: "boot"})
	if err := r.apply(t.Context()); err == nil || !strings.HasPrefix(told, "the whole report: ") {
		t.Errorf("the Lease says %q (%v)", told, err)
	}
}
