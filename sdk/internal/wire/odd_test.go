package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// oddities are types that the author of a hook may write, and those of Kubernetes
// that read and write themselves.
var oddities = []reflect.Type{
	reflect.TypeFor[oddNumbers](), reflect.TypeFor[oddTags](), reflect.TypeFor[oddKeys](), reflect.TypeFor[oddZeros](),
	reflect.TypeFor[oddInts](), reflect.TypeFor[oddLists](), reflect.TypeFor[oddMaps](), reflect.TypeFor[oddMethods](),
	reflect.TypeFor[oddInterfaces](), reflect.TypeFor[oddUnicode](), reflect.TypeFor[oddTimes](), reflect.TypeFor[oddKubernetes](),
	reflect.TypeFor[embedsUnexported](), reflect.TypeFor[embedsShadowed](), reflect.TypeFor[embedsTwins](), reflect.TypeFor[embedsPointer](),
	reflect.TypeFor[embedsTagged](), reflect.TypeFor[embedsDeep](), reflect.TypeFor[holdsItself](), reflect.TypeFor[oddCase](),
	reflect.TypeFor[clusterv1.Cluster](), reflect.TypeFor[clusterv1.ClusterClass](),
}

// colon is a text of its own.
type colon string

func (c colon) MarshalText() ([]byte, error) { return []byte("c:" + string(c)), nil }
func (c *colon) UnmarshalText(b []byte) error {
	*c = colon(strings.TrimPrefix(string(b), "c:"))
	return nil
}

// answer is zero when it is 42.
type answer struct{ N int }

func (a answer) IsZero() bool { return a.N == 42 }

// pointed is zero when it is 42, as its pointer knows.
type pointed struct{ N int }

func (p *pointed) IsZero() bool { return p == nil || p.N == 42 }

// prefixed writes and reads itself.
type prefixed struct{ S string }

func (p prefixed) MarshalJSON() ([]byte, error) { return json.Marshal("p" + p.S) }
func (p *prefixed) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("prefixed: %w", err)
	}
	p.S = strings.TrimPrefix(s, "p")
	return nil
}

type (
	named    string
	namedInt int16
	octet    uint8

	inner struct {
		A string `json:"a,omitempty"`
		B int32  `json:"b"`
	}
	Outer struct {
		A string `json:"a"`
		C string `json:"c,omitempty"`
	}
	// Left and Right lose what both have.
	Left struct {
		X string
		Y string `json:"y"`
	}
	Right struct {
		X string
		Z string `json:"z"`
	}
	Middle struct {
		*Outer
		Left
	}

	oddNumbers struct {
		N    json.Number
		P    *json.Number           `json:"p,omitempty"`
		Q    json.Number            `json:"q,omitempty"`
		Z    json.Number            `json:"z,omitzero"`
		List []json.Number          `json:"list"`
		Map  map[string]json.Number `json:"map"`
		Key  map[json.Number]int    `json:"key"`
		F32  float32
		F64  float64
	}
	oddTags struct {
		A string `json:"-"`
		B string `json:"-,"` //nolint:staticcheck // a field of the name -
		C string
		d string //nolint:unused // as unexported fields are
		E string `json:",omitempty"` //nolint:tagliatelle // on purpose
		F string `json:"f,string"`
		G int    `json:"g,string,omitempty"`
		H bool   `json:"h,string"`
		I *int   `json:"i,string"`
	}
	oddKeys struct {
		Text   map[colon]int
		Number map[int]string
		Small  map[uint8]string `json:"small,omitempty"`
		Named  map[named]string
	}
	oddZeros struct {
		Answer   answer             `json:"answer,omitzero"`
		Pointed  pointed            `json:"pointed,omitzero"`
		Pointer  *pointed           `json:"pointer,omitzero"`
		Struct   inner              `json:"struct,omitzero"`
		Empty    inner              `json:"empty,omitempty"` //nolint:modernize // has no effect, as in encoding/json
		Both     inner              `json:"both,omitempty,omitzero"`
		Int      int                `json:"int,omitzero"`
		Bool     *bool              `json:"bool,omitzero"`
		BoolOr   *bool              `json:"boolOr,omitempty"`
		None     [0]int             `json:"none,omitempty"`
		One      [1]int             `json:"one,omitempty"`
		Map      map[string]string  `json:"map,omitzero"`
		List     []string           `json:"list,omitzero"`
		Any      any                `json:"any,omitempty"`
		Time     time.Time          `json:"time,omitzero"`
		MetaTime metav1.Time        `json:"metaTime,omitempty,omitzero"`
		Quantity *resource.Quantity `json:"quantity,omitzero"`
	}
	oddInts struct {
		I8  int8
		I16 int16
		I64 int64
		U   uint
		U8  uint8
		U64 uint64
		D   time.Duration
		NI  namedInt
		PP  **int32
		NP  *namedInt `json:",omitempty"` //nolint:tagliatelle // on purpose
	}
	oddLists struct {
		Strings  []string
		Nested   [][]string
		Bytes    []byte
		Octets   []octet
		Three    [3]int
		Four     [4]byte
		Pointers []*string
		Structs  []*inner
		Pointer  *[]string
		Two      [2]inner
		BytesOf  [][]byte
	}
	oddMaps struct {
		Map     map[string]string
		Of      map[string]map[string]string
		Pointer *map[string]string
		Bytes   map[string][]byte
		Structs map[string]inner
		ByPtr   map[string]*inner `json:"byPtr,omitempty"`
	}
	oddMethods struct {
		V  prefixed
		P  *prefixed
		L  []prefixed
		M  map[string]prefixed
		T  colon
		TP *colon
	}
	oddInterfaces struct {
		Any  any
		Map  map[string]any
		List []any
		Raw  json.RawMessage
		Ptr  *json.RawMessage
	}
	oddUnicode struct {
		A string `json:"ä"`
		B string `json:"a.b"` //nolint:tagliatelle // on purpose
		C string `json:"a/b"`
		D string `json:"a-b_c"` //nolint:tagliatelle // on purpose
	}
	oddTimes struct {
		Time     time.Time
		Meta     metav1.Time
		Ptr      *metav1.Time `json:"ptr,omitempty"`
		Micro    metav1.MicroTime
		Duration metav1.Duration
	}
	oddKubernetes struct {
		Quantity resource.Quantity
		IntOr    intstr.IntOrString
		IntOrPtr *intstr.IntOrString `json:"intOrPtr,omitempty"`
		Raw      runtime.RawExtension
		RawPtr   *runtime.RawExtension `json:"rawPtr,omitempty"`
		JSON     apiextensionsv1.JSON
		JSONPtr  *apiextensionsv1.JSON `json:"jsonPtr,omitempty"`
		Raws     map[string]runtime.RawExtension
		UID      types.UID
		Name     types.NamespacedName
		Selector *metav1.LabelSelector
		Owners   []metav1.OwnerReference
		Meta     metav1.ObjectMeta `json:"metadata,omitempty"` //nolint:modernize // as everywhere
	}
	embedsUnexported struct{ inner }
	embedsShadowed   struct {
		Outer
		A int `json:"a"`
	}
	embedsTwins struct {
		Left
		Right
	}
	embedsPointer struct {
		*Outer
		D string `json:"d"`
	}
	embedsTagged struct {
		Outer `json:"outer,omitempty"`
	}
	embedsDeep struct {
		*Middle
		W string `json:"w"`
	}
	holdsItself struct {
		Name string                  `json:"name,omitempty"`
		Kids []holdsItself           `json:"kids,omitempty"`
		Next *holdsItself            `json:"next,omitempty"`
		By   map[string]*holdsItself `json:"by,omitempty"`
	}
	oddCase struct {
		Lower string `json:"foo"`
		Upper string `json:"FOO"` //nolint:tagliatelle // on purpose
		Bar   string
	}
)
