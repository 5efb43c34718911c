package wire

import (
	"bytes"
	"context"
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A list of a million empty objects is 3 MB on the wire and hundreds in memory: what values become
// is counted while they are decoded.

const (
	// growth is by how much a growing list or map may exceed what it holds.
	growth = 2
	// word is the size of a pointer.
	word = 8
	// anyMap is what a map[string]any needs from its first entry on, as many as it has room for then.
	anyMap = mapHeader + slots*4*word
	// mapHeader is what a map needs besides its entries, slots how many of those it has room for.
	mapHeader, slots = 8 * word, 8
)

// needs is what the JSON of a Go type may need when it is read or written.
type needs struct {
	// most is the most memory that one value may become, besides its text.
	most int64
	// numbers tells that there may be a json.Number below, lenient that a struct has tags that
	// encoding/json takes and encoding/json/v2 objects to.
	numbers, lenient bool
}

var (
	known  sync.Map // reflect.Type to *needs
	leaves = []reflect.Type{
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// needsOf returns what the type of an object needs.
func needsOf(object any) *needs {
	t := reflect.TypeOf(object)
	if n, ok := known.Load(t); ok {
		return n.(*needs)
	}
	n := &needs{most: anyMap}
	n.add(t, map[reflect.Type]bool{})
	known.Store(t, n)
	return n
}

func (n *needs) add(t reflect.Type, seen map[reflect.Type]bool) {
	n.numbers = n.numbers || t == reflect.TypeFor[stdjson.Number]() || t.Kind() == reflect.Interface
	if seen[t] || slices.ContainsFunc(leaves, reflect.PointerTo(t).Implements) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		n.lenient = n.lenient || json.Unmarshal([]byte("{}"), reflect.New(t).Interface(), reading) != nil
		for field := range t.Fields() {
			if field.Tag.Get("json") != "-" {
				n.add(field.Type, seen)
			}
		}
	case reflect.Map:
		n.add(t.Key(), seen)
		fallthrough
	case reflect.Pointer, reflect.Slice, reflect.Array:
		n.most = max(n.most, sizeOf(t), sizeOf(t.Elem()))
		n.add(t.Elem(), seen)
	default:
	}
}

// sizeOf returns the most that a value of t takes in what holds it, with what it has room for. The
// allocator rounds up what stands outside of that, such as a text.
func sizeOf(t reflect.Type) int64 {
	size := growth*int64(t.Size()) + 2*word
	switch t.Kind() {
	case reflect.Map:
		return size + mapHeader + slots*int64(t.Key().Size()+t.Elem().Size())
	case reflect.Interface:
		return size + anyMap
	default:
		return size
	}
}

// guess returns at most how many bytes data needs when it is decoded, besides its
// strings and raw values. It takes no time, and is often many times too much.
func (n *needs) guess(data []byte) int64 {
	values := 1
	for _, before := range []string{"{", "[", ","} {
		values += bytes.Count(data, []byte(before))
	}
	return int64(values) * n.most
}

// counted are functions that reserve what values become, before they are decoded.
func (b *Body) counted(ctx context.Context) *json.Unmarshalers {
	decoded := int64(0)
	return json.UnmarshalFromFunc(func(_ *jsontext.Decoder, value any) error {
		decoded += sizeOf(reflect.TypeOf(value).Elem())
		if !b.small || decoded > freeFootprint {
			// in steps, as others wait for the same budget
			const step = 1 << 20
			total := int64(len(b.data)) + decoded
			if total > b.reserved && total <= b.budget.limit {
				total = min(total+step, b.budget.limit)
			}
			if err := b.reserveBytes(ctx, total); err != nil {
				return err
			}
		}
		return errors.ErrUnsupported
	})
}

// FootprintError tells that a body is small on the wire and large in memory.
type FootprintError struct {
	// Limit is the most that a body may become, in bytes.
	Limit int64
}

// Error implements error.
func (e *FootprintError) Error() string {
	return fmt.Sprintf("the body would need more than %d bytes when it is decoded", e.Limit)
}
