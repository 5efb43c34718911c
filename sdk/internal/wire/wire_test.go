package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// TestCodecAgreesWithEncodingJSON compares with what upstream reads and writes.
func TestCodecAgreesWithEncodingJSON(t *testing.T) {
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	for path, item := range openapi.ForCatalog(openapi.Info{}, c).Paths {
		t.Run(path, func(t *testing.T) {
			definition := definitionAt(t, c, path)
			example := item.Post.RequestBody.Content["application/json"].Example
			ours, theirs := definition.NewRequest(), definition.NewRequest()
			if err := wire.Decode(example, ours, definition.RequestKind); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(example, theirs); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(ours, theirs) {
				t.Errorf("decoded %+v, encoding/json decodes %+v", ours, theirs)
			}
			encoded, err := wire.Encode(ours)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, encoded, want) {
				t.Errorf("encoded %s\nencoding/json encodes %s", encoded, want)
			}
		})
	}
}

func definitionAt(t *testing.T, c *hook.Catalog, path string) *hook.Definition {
	t.Helper()
	for _, d := range c.All() {
		if hook.Path(d.Name, "") == strings.TrimSuffix(path, "/{name}") {
			return d
		}
	}
	t.Fatal("no hook at ", path)
	return nil
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

func source(text string, length int64) wire.Source {
	return wire.Source{Reader: strings.NewReader(text), Length: length, Limit: 1 << 20}
}

func TestBodiesAreReadWhole(t *testing.T) {
	b := wire.NewBudget(2 << 20)
	for _, size := range []int{0, 1, 8 << 10, 8<<10 + 1, 32 << 10, 100 << 10, 256 << 10, 256<<10 + 1, 700 << 10, 1 << 20} {
		text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		for _, length := range []int64{int64(size), -1} {
			body, err := b.Read(t.Context(), source(text, length))
			if err != nil {
				t.Fatalf("%d bytes, announced %d: %v", size, length, err)
			}
			if string(body.Bytes()) != text {
				t.Errorf("%d bytes, announced %d: read %d others", size, length, len(body.Bytes()))
			}
			body.Release()
			body.Release()
		}
		if size == 1<<20 {
			var tooLarge *wire.TooLargeError
			if _, err := b.Read(t.Context(), source(text+"x", -1)); !errors.As(err, &tooLarge) {
				t.Errorf("a byte more than the limit: %v", err)
			}
		}
	}
}

// TestBudget proves that large bodies wait for each other, that short ones don't,
// and that no reservation is lost.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := wire.NewBudget(2 << 20)
		large := strings.Repeat("a", 600<<10)
		body, err := b.Read(t.Context(), source(large, int64(len(large))))
		if err != nil {
			t.Fatal(err)
		}
		body.Recycle()
		if _, err := b.Read(t.Context(), source(large, int64(len(large)))); !errors.Is(err, wire.ErrBusy) {
			t.Errorf("got %v while the memory is reserved, want ErrBusy", err)
		}
		short, err := b.Read(t.Context(), source("{}", 2))
		if err != nil {
			t.Fatalf("a short body is refused while a large one is held: %v", err)
		}
		short.Release()
		waited := make(chan error, 1)
		go func() {
			next, err := b.Read(t.Context(), source(large, -1))
			if err == nil {
				next.Release()
			}
			waited <- err
		}()
		synctest.Wait()
		body.Release()
		if err := <-waited; err != nil {
			t.Errorf("a body that waited for memory: %v", err)
		}
		for _, length := range []int64{-1, 1 << 29} {
			var tooLarge *wire.TooLargeError
			if _, err := b.Read(t.Context(), wire.Source{Reader: endless{}, Length: length, Limit: 1 << 20}); !errors.As(err, &tooLarge) {
				t.Errorf("got %v, want a TooLargeError", err)
			}
		}
		for range 10 {
			body, err := b.Read(t.Context(), source(large, -1))
			if err != nil {
				t.Fatalf("the budget leaks: %v", err)
			}
			body.Release()
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestCycle writes an object that holds itself.
func TestCycle(t *testing.T) {
	schema := &clusterv1.JSONSchemaProps{}
	schema.Not = schema
	response := &hooksv1.DiscoverVariablesResponse{Variables: []clusterv1.ClusterClassVariable{{
		Name: "a", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: *schema},
	}}}
	if data, err := wire.Encode(response); err == nil || data != nil {
		t.Errorf("wrote %q and returned %v, want an error and nothing of the object", data, err)
	}
}

// TestErrorsNameTheField decodes what is wrong in one place.
func TestErrorsNameTheField(t *testing.T) {
	for body, want := range map[string]string{
		`{"items":[{"holderReference":{"kind":5}}]}`:                 `within "/items/0/holderReference/kind"`,
		`{"items":[{"holderReference":{"kind":"a","kind":"b"}}]}`:    `duplicate object member name "kind" within "/items/0/holderReference"`,
		"{\"items\":[{\"holderReference\":{\"kind\":\"\xff\"}}]}":    `invalid UTF-8 within "/items/0/holderReference/kind"`,
		`{"items":[{"object":{"a":1}}],"variables":[{"value":{]}]}`:  `within "/variables/0/value"`,
		`{"settings":{"a":"b"},"cluster":{"metadata":{"name":"a"}}`:  "unexpected EOF",
		`{"items":[{"object":{"a":1,"b":{"c":2,"c":3}},"uid":"1"}]}`: `duplicate object member name "c" within "/items/0/object/b"`,
	} {
		definition := capi.GeneratePatches.Definition()
		err := wire.Decode([]byte(body), definition.NewRequest(), definition.RequestKind)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"GeneratePatchesRequest","items":[{"uid":"1","object":{"a":1}}]}`))
	f.Add([]byte(`{"items":null,"variables":[{"name":"a","value":{}}]}`))
	f.Add([]byte(`[[[[`))
	definition := capi.GeneratePatches.Definition()
	f.Fuzz(func(t *testing.T, data []byte) {
		request := definition.NewRequest()
		if wire.Decode(data, request, definition.RequestKind) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("invalid JSON was accepted: %q", data)
		}
		if _, err := wire.Encode(request); err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"status":"Success","retryAfterSeconds":5}`))
	f.Add([]byte(`{"retryAfterSeconds":3600,"status":5}`))
	definition := capi.BeforeClusterCreate.Definition()
	f.Fuzz(func(t *testing.T, data []byte) {
		ours := definition.NewResponse()
		if wire.Decode(data, ours, definition.ResponseKind) != nil {
			return
		}
		if theirs := new(hooksv1.BeforeClusterCreateResponse); json.Unmarshal(data, theirs) != nil {
			t.Fatalf("accepted what encoding/json refuses: %q", data)
		}
	})
}
