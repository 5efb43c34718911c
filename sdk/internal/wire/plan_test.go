package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	k8sjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
)

func allHooks(t testing.TB) []*hook.Definition {
	t.Helper()
	c := hook.NewCatalog()
	for _, add := range []func(*hook.Catalog) error{capi.AddToCatalog, host.AddToCatalog} {
		if err := add(c); err != nil {
			t.Fatal(err)
		}
	}
	return c.All()
}

// TestPlansWriteWhatTheLibraryWrites fills every request and response at random.
func TestPlansWriteWhatTheLibraryWrites(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(14).Funcs(
		func(raw *runtime.RawExtension, c randfill.Continue) { raw.Raw = randomRaw(c) },
		func(raw *apiextensionsv1.JSON, c randfill.Continue) { raw.Raw = randomRaw(c) },
		func(raw *clusterv1.JSONSchemaProps, c randfill.Continue) { c.Fill(&raw.Type); c.Fill(&raw.Required) },
		func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.SetRawBytes([]byte(`{"f:spec":{}}`)) },
	)
	for _, d := range allHooks(t) {
		t.Run(d.Name.String(), func(t *testing.T) {
			for range 200 {
				for _, object := range []runtime.Object{d.NewRequest(), d.NewResponse()} {
					filler.Fill(object)
					agree(t, object)
				}
			}
		})
	}
}

func randomRaw(c randfill.Continue) []byte {
	texts := []string{`null`, `"a\u0041\n"`, `{"b": [1, 2.50, -0, 1e3], "a": {"x":null}}`, ` [ ] `, `9007199254740993`, `true`}
	if c.Intn(8) == 0 {
		return nil
	}
	return []byte(texts[c.Intn(len(texts))])
}

// agree writes and reads object with the plan of its type and with json.
func agree(t *testing.T, object runtime.Object) {
	t.Helper()
	var text bytes.Buffer
	if err := Encode(&text, object); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(object, writing)
	if err != nil {
		t.Fatal(err)
	}
	if !sameValue(t, text.Bytes(), want) {
		t.Fatalf("wrote %s\njson writes %s", &text, want)
	}
	ours, theirs := empty(object), empty(object)
	if err := newDecoder().decode(want, ours); err != nil {
		t.Fatalf("read %.500s: %v", want, err)
	}
	if err := json.Unmarshal(want, theirs, options); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Fatalf("read %+v\njson reads %+v", ours, theirs)
	}
}

// sameValue compares all but the order of members.
func sameValue(t *testing.T, a, b jsontext.Value) bool {
	t.Helper()
	for _, v := range []*jsontext.Value{&a, &b} {
		*v = v.Clone()
		if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
			t.Fatalf("%s: %v", *v, err)
		}
	}
	return bytes.Equal(a, b)
}

func empty(object any) any { return reflect.New(reflect.TypeOf(object).Elem()).Interface() }

// TestPlansLeaveFew tells when a type of a hook is no longer read by its plan, as
// after a new kind of tag: it would still be right, and slow.
func TestPlansLeaveFew(t *testing.T) {
	for _, d := range allHooks(t) {
		for _, object := range []any{d.NewRequest(), d.NewResponse()} {
			p := planFor(reflect.TypeOf(object).Elem())
			if p.kind != aStruct {
				t.Errorf("%T is read by the library", object)
			}
			if i, ok := p.names["cluster"]; ok {
				cluster := p.fields[i].plan
				for _, name := range []string{"metadata", "spec", "status"} {
					if cluster.fields[cluster.names[name]].plan.kind != aStruct {
						t.Errorf("%s of the Cluster in %T is read by the library", name, object)
					}
				}
			}
		}
	}
}

// TestCycle writes an object that holds itself.
func TestCycle(t *testing.T) {
	schema := &clusterv1.JSONSchemaProps{}
	schema.Not = schema
	response := capi.DiscoverVariables.Definition().NewResponse()
	reflect.ValueOf(response).Elem().FieldByName("Variables").Set(reflect.ValueOf([]clusterv1.ClusterClassVariable{{
		Name: "a", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: *schema},
	}}))
	if err := Encode(new(bytes.Buffer), response); err == nil {
		t.Error("no error for an object that holds itself")
	}
}

// FuzzPlans reads any body with the plans, with package json and with the decoder
// of Kubernetes: the plans accept what json accepts, and all read the same.
func FuzzPlans(f *testing.F) {
	definitions := allHooks(f)
	create := uint8(0)
	for i, d := range definitions {
		if d == capi.BeforeClusterCreate.Definition() {
			create = uint8(i)
		}
	}
	for _, seed := range []string{
		`{"settings":{"a":"b"},"cluster":{"metadata":{"labels":{"a":"1","b":null},"creationTimestamp":"2026-01-01T00:00:00Z"}}}`,
		`{"settings":{"a":1},"cluster":null}`, `{"settings":{"a":"1","a":"2"}}`, `{"setting\u0073":{"\u00e4":"\ud83d\ude00"}}`,
		`{"cluster":{"spec":{"topology":{"variables":[{"name":"x","value":{"b":[1e400]}},{"value":null},null]}}}}`,
		`{"cluster":{"metadata":{"generation":1.0}}}`, `{"cluster":{"metadata":{"generation":-0,"Generation":4}}}`,
		`{"cluster":{"metadata":{"generation":9223372036854775808}}}`, `{"cluster":{"spec":{"paused":true,"paused":false}}}`,
		`{"cluster":{"spec":{"topology":{"controlPlane":{"replicas":"3"}}}}} `, `{"cluster":{}} {}`, "{\"kind\":\"\xff\"}",
		`{"cluster":{"spec":{"topology":{"workers":{"machineDeployments":[{"replicas":2147483648}]}}}}}`,
	} {
		f.Add(create, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		d := definitions[int(which)%len(definitions)]
		for _, object := range []any{d.NewRequest(), d.NewResponse()} {
			ours, theirs, kubernetes := object, empty(object), empty(object)
			err, want := newDecoder().decode(data, ours), json.Unmarshal(data, theirs, options)
			if (err == nil) != (want == nil) {
				t.Fatalf("%T: got the error %v, json's is %v", object, err, want)
			}
			if err != nil {
				continue
			}
			if !reflect.DeepEqual(ours, theirs) {
				t.Errorf("read %+v\njson reads %+v", ours, theirs)
			}
			strict, err := k8sjson.UnmarshalStrict(data, kubernetes, k8sjson.DisallowDuplicateFields)
			if err != nil || len(strict) > 0 {
				t.Fatalf("%T: Kubernetes refuses what we read: %v %v", object, err, strict)
			}
			if !reflect.DeepEqual(ours, kubernetes) && !strings.Contains(string(data), "null") {
				t.Errorf("read %+v\nKubernetes reads %+v", ours, kubernetes)
			}
		}
	})
}
