package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	k8sjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
)

// candidates are the types of all hooks and the odd ones.
func candidates(t testing.TB) []reflect.Type {
	t.Helper()
	c := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(c), host.AddToCatalog(c)); err != nil {
		t.Fatal(err)
	}
	list := oddities
	for _, d := range c.All() {
		list = append(list, reflect.TypeOf(d.NewRequest()).Elem(), reflect.TypeOf(d.NewResponse()).Elem())
	}
	return list
}

func newOf(t reflect.Type) any { return reflect.New(t).Interface() }

// sameMeaning reads data with encoding/json and with our options, and as loose as
// encoding/json is where we are strict on purpose. Looser, both must agree; strict,
// we may only refuse what is repeated or no UTF-8.
func sameMeaning(t *testing.T, typ reflect.Type, data []byte) {
	t.Helper()
	theirs, loose, strict := newOf(typ), newOf(typ), newOf(typ)
	want := stdjson.Unmarshal(data, theirs)
	options := optionsFor(strict, reading)
	err := json.Unmarshal(data, loose, options, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if (err == nil) != (want == nil) {
		t.Fatalf("%v %q: got the error %v, that of encoding/json is %v", typ, data, err, want)
	}
	if err == nil && !reflect.DeepEqual(loose, theirs) {
		t.Fatalf("%v %q:\nread              %+v\nencoding/json reads %+v", typ, data, loose, theirs)
	}
	switch err := json.Unmarshal(data, strict, options); {
	case err != nil && want == nil && !onPurpose(err):
		t.Fatalf("%v %q is refused: %v", typ, data, err)
	case err == nil && want != nil:
		t.Fatalf("%v %q is accepted, encoding/json says: %v", typ, data, want)
	case err == nil && !reflect.DeepEqual(strict, theirs):
		t.Fatalf("%v %q:\nread              %+v\nencoding/json reads %+v", typ, data, strict, theirs)
	}
}

// onPurpose tells whether we refuse what encoding/json accepts for a reason that
// docs/sdk.md gives.
func onPurpose(err error) bool {
	return strings.Contains(err.Error(), "invalid UTF-8") ||
		strings.Contains(err.Error(), "surrogate pair") || strings.Contains(err.Error(), jsontext.ErrDuplicateName.Error())
}

// FuzzAsEncodingJSON reads any body as each type of a hook and as each odd one.
func FuzzAsEncodingJSON(f *testing.F) {
	list := candidates(f)
	rng := rand.New(rand.NewPCG(1, 2))
	for which, typ := range list {
		for range 5 {
			f.Add(uint8(which), []byte(body(rng, typ)))
		}
	}
	create := uint8(slices.Index(list, reflect.TypeFor[hooksv1.BeforeClusterCreateRequest]()))
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
		typ := list[int(which)%len(list)]
		sameMeaning(t, typ, data)
		if !slices.Contains(oddities, typ) {
			asKubernetes(t, typ, data)
		}
	})
}

// asKubernetes reads with the decoder of Kubernetes what we accept. Unlike
// encoding/json it tells upper from lower case, too.
func asKubernetes(t *testing.T, typ reflect.Type, data []byte) {
	t.Helper()
	ours, theirs := newOf(typ), newOf(typ)
	if json.Unmarshal(data, ours, optionsFor(ours, reading), json.MatchCaseInsensitiveNames(false)) != nil {
		return
	}
	strict, err := k8sjson.UnmarshalStrict(data, theirs, k8sjson.DisallowDuplicateFields)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%v %q: Kubernetes refuses what we read: %v %v", typ, data, err, strict)
	}
	if !reflect.DeepEqual(ours, theirs) && !strings.Contains(string(data), "null") {
		t.Fatalf("%v %q:\nread            %+v\nKubernetes reads %+v", typ, data, ours, theirs)
	}
}

// TestReadsAsEncodingJSON reads many bodies of the names and values that matter.
func TestReadsAsEncodingJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, typ := range candidates(t) {
		for range 100 {
			data := []byte(body(rng, typ))
			sameMeaning(t, typ, data)
			if !slices.Contains(oddities, typ) {
				asKubernetes(t, typ, data)
			}
		}
	}
}

// atoms are values that the types may or may not take.
var atoms = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `1.0`, `1e2`, `1E400`, `2147483648`, `9223372036854775807`, `9223372036854775808`,
	`18446744073709551616`, `0.1`, `01`, `+1`, `.5`, `NaN`, `12345678901234567890123456789.10`,
	`""`, `"a"`, `"\u0061"`, `"\ud800"`, `"\ud83d\ude00"`, `"\ud800\u0061"`, "\"\xff\"", "\"\t\"", `"\x"`, `"2026-01-01T00:00:00Z"`,
	`"10Mi"`, `"5"`, `"true"`, `"null"`, `"YQ=="`, `"YQ"`, `"Y Q=="`, "\"YQ\\n==\"", `"c:a"`, `"1h"`,
	`[]`, `{}`, `[null]`, `[1,2,3]`, `["a",null]`, `{"a":null}`, `{"a":"b"}`, `{"a":1}`, `{"1":"a"}`, `{"c:a":1}`, `{"x":1}`, `{"300":"a"}`, `[[]]`,
	`{"a":"1","a":"2"}`, `[{"a":1},null,{}]`, ` [ 1 , 2 ] `, `{"Z":1}`, `{"z":{"A":1,"a":2}}`, `[`, `{`, `{"a"}`, `[1,]`, `{"a":1,}`, `{,}`, `//`, "\ufeff{}",
}

// body is an object with members of typ.
func body(rng *rand.Rand, typ reflect.Type) string {
	names := namesOf(typ, nil, 0)
	parts := make([]string, 1+rng.IntN(4))
	for i := range parts {
		parts[i] = member(rng, names, 1)
	}
	text := "{" + strings.Join(parts, ",") + "}"
	if rng.IntN(30) == 0 {
		text += []string{" ", "{}", "x", "\x00", "\n"}[rng.IntN(5)]
	}
	return text
}

func member(rng *rand.Rand, names []string, depth int) string {
	name := names[rng.IntN(len(names))]
	switch rng.IntN(20) {
	case 0:
		name = strings.ToUpper(name)
	case 1:
		name = strings.ReplaceAll(name, "a", `\u0061`)
	}
	return `"` + name + `":` + value(rng, names, depth)
}

func value(rng *rand.Rand, names []string, depth int) string {
	const deepest = 4
	kind := rng.IntN(10)
	if depth > deepest || kind < 5 {
		return atoms[rng.IntN(len(atoms))]
	}
	parts := make([]string, rng.IntN(4))
	for i := range parts {
		if kind < 8 {
			parts[i] = member(rng, names, depth+1)
		} else {
			parts[i] = value(rng, names, depth+1)
		}
	}
	if kind < 8 {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// namesOf adds the names of the members of t and of what is below.
func namesOf(t reflect.Type, names []string, depth int) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || depth > 3 {
		return names
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		names = namesOf(field.Type, append(names, name), depth+1)
	}
	return names
}

// TestWritesAsEncodingJSON fills every type at random, writes it both ways and
// reads what encoding/json wrote.
func TestWritesAsEncodingJSON(t *testing.T) {
	for _, typ := range candidates(t) {
		t.Run(typ.Name(), func(t *testing.T) {
			for seed := range int64(50) {
				object := newOf(typ)
				filler(seed).Fill(object)
				want, err := stdjson.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				options := optionsFor(object, writing)
				got, err := json.Marshal(object, options, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
				if err != nil {
					t.Fatalf("%+v: %v", object, err)
				}
				if !sameValue(t, got, want) {
					t.Fatalf("wrote              %s\nencoding/json writes %s", got, want)
				}
				sameMeaning(t, typ, want)
				if got, err = json.Marshal(object, options); err != nil {
					t.Fatal(err)
				}
				ours, theirs := newOf(typ), newOf(typ)
				if err := errors.Join(stdjson.Unmarshal(got, ours), stdjson.Unmarshal(want, theirs)); err != nil || !reflect.DeepEqual(ours, theirs) {
					t.Fatalf("encoding/json reads %s differently from %s: %v", got, want, err)
				}
			}
		})
	}
}

// sameValue compares all but the order of members and spaces.
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

func filler(seed int64) *randfill.Filler {
	pick := func(c randfill.Continue, texts ...string) string { return texts[c.Intn(len(texts))] }
	raw := func(c randfill.Continue) []byte {
		if c.Intn(8) == 0 {
			return nil
		}
		return []byte(pick(c, `null`, `"a\u0041\n"`, `{"b":[1,2.50,-0,1e3],"a":{"x":null}}`, ` [ ] `, `9007199254740993`, `true`))
	}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(7).Funcs(
		func(v *runtime.RawExtension, c randfill.Continue) { v.Raw = raw(c) },
		func(v *apiextensionsv1.JSON, c randfill.Continue) { v.Raw = raw(c) },
		func(v *clusterv1.JSONSchemaProps, c randfill.Continue) { c.Fill(&v.Type); c.Fill(&v.Required) },
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawBytes([]byte(`{"f:spec":{}}`)) },
		func(v *stdjson.Number, c randfill.Continue) {
			*v = stdjson.Number(pick(c, "", "0", "-1.50", "1e400", strconv.Itoa(c.Intn(1000))))
		},
		func(v *map[stdjson.Number]int, c randfill.Continue) {
			*v = map[stdjson.Number]int{stdjson.Number(pick(c, "", "1", "no number")): 1}
		},
		func(v *stdjson.RawMessage, _ randfill.Continue) { *v = stdjson.RawMessage(`{"b": [1, "x"]}`) },
		func(v *any, c randfill.Continue) {
			*v = []any{nil, "s<>&\u2028", true, 1.5, []any{"x", stdjson.Number("5.50")}, map[string]any{"a": 1e21}, stdjson.Number("1")}[c.Intn(7)]
		},
		func(v *float32, c randfill.Continue) {
			*v = []float32{0, float32(math.Copysign(0, -1)), 1e-7, 1e21, 3.4e38, 1.5}[c.Intn(6)]
		},
		func(v *float64, c randfill.Continue) {
			*v = []float64{0, math.Copysign(0, -1), 1e-7, 1e21, 1e300, 1.5}[c.Intn(6)]
		},
		func(v *time.Time, c randfill.Continue) { *v = time.Unix(int64(c.Intn(2))*1e9, 0).UTC() },
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(int64(c.Intn(2))*1e9, 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			*v = metav1.NewMicroTime(time.Unix(int64(c.Intn(2))*1e9, 5000))
		},
		func(v *resource.Quantity, c randfill.Continue) {
			*v = resource.MustParse(pick(c, "0", "100Mi", "1.5", "12e6"))
		},
		func(v *answer, c randfill.Continue) { v.N = 41 + c.Intn(2) },
		func(v *pointed, c randfill.Continue) { v.N = 41 + c.Intn(2) },
		func(v *string, c randfill.Continue) {
			*v = pick(c, "", "a", "<b>&", "\u2028", "\x00\x1f", "ä\U0001F600", `q"\/`, strings.Repeat("long", 40), "\u007f\u0080", "3")
		},
	)
}
