package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

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
			var buf bytes.Buffer
			if err := wire.Encode(&buf, ours); err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, buf.Bytes(), want) {
				t.Errorf("encoded %s\nencoding/json encodes %s", &buf, want)
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

func TestBudget(t *testing.T) {
	b := wire.NewBudget(1 << 20)
	body, err := b.Read(strings.NewReader(strings.Repeat("a", 500<<10)), 1<<20)
	if err != nil || len(body.Bytes()) != 500<<10 {
		t.Fatal(err)
	}
	if _, err := b.Read(strings.NewReader(strings.Repeat("a", 600<<10)), 1<<20); !errors.Is(err, wire.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	short, err := b.Read(strings.NewReader("{}"), 1<<20)
	if err != nil {
		t.Fatalf("a short body is refused while a large one is held: %v", err)
	}
	short.Release()
	body.Release()
	var tooLarge *wire.TooLargeError
	if _, err := b.Read(io.LimitReader(endless{}, 1<<30), 100<<10); !errors.As(err, &tooLarge) {
		t.Errorf("got %v, want a TooLargeError", err)
	}
	for range 10 {
		body, err := b.Read(strings.NewReader(strings.Repeat("a", 500<<10)), 1<<20)
		if err != nil {
			t.Fatalf("the budget leaks: %v", err)
		}
		body.Release()
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

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
		var buf bytes.Buffer
		if err := wire.Encode(&buf, request); err != nil {
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
		// Names that differ in case are equal to encoding/json and others to us.
		if theirs := new(hooksv1.BeforeClusterCreateResponse); json.Unmarshal(data, theirs) != nil && !strings.ContainsAny(string(data), "ABCDEFGHIJKLMNOPQRSTUVWXYZ\u017f\u212a") {
			t.Fatalf("accepted what encoding/json refuses: %q", data)
		}
	})
}
