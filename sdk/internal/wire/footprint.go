package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A list of a million empty objects is 3 MB on the wire and hundreds in memory.
// A shape tells what a body becomes before it is decoded.

const (
	// growth is by how much a growing list may exceed its elements.
	growth = 2
	// entry is what a map needs for an entry besides key and value.
	entry = 32
	// dense is how much larger than its text a value of any type can be: numbers in
	// a list.
	dense = 16
)

// shape is what memory the JSON of a Go type needs. Leaves have no parts: strings
// and raw values need no more than the body has.
type shape struct {
	kind   reflect.Kind
	size   int64 // of an element of a slice or map, or of what a pointer points to
	fields map[string]*shape
	of     *shape
	// largest is the largest object that a list or pointer below may hold.
	largest int64
}

// counting leaves it to the decoder to be strict.
var counting = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var (
	shapes      sync.Map // reflect.Type to *shape
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	leaf        = &shape{}
)

// shapeOf returns the shape of an object's type.
func shapeOf(object any) *shape {
	t := reflect.TypeOf(object)
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := newShape(t.Elem(), map[reflect.Type]*shape{})
	s.largest = s.findLargest(map[*shape]bool{})
	shapes.Store(t, s)
	return s
}

func newShape(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s, ok := known[t]; ok {
		return s
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return leaf
	}
	s := &shape{kind: t.Kind()}
	known[t] = s
	switch t.Kind() {
	case reflect.Struct:
		s.fields = map[string]*shape{}
		s.addFields(t, known)
	case reflect.Pointer:
		s.size, s.of = int64(t.Elem().Size()), newShape(t.Elem(), known)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return leaf
		}
		s.size, s.of = growth*int64(t.Elem().Size()), newShape(t.Elem(), known)
	case reflect.Map:
		s.size, s.of = growth*int64(t.Key().Size()+t.Elem().Size()+entry), newShape(t.Elem(), known)
	case reflect.Interface:
	default:
		return leaf
	}
	return s
}

func (s *shape) addFields(t reflect.Type, known map[reflect.Type]*shape) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			s.addFields(field.Type, known)
		case name == "":
			s.fields[field.Name] = newShape(field.Type, known)
		default:
			s.fields[name] = newShape(field.Type, known)
		}
	}
}

func (s *shape) findLargest(seen map[*shape]bool) int64 {
	if s == nil || seen[s] {
		return 0
	}
	seen[s] = true
	largest := s.size
	for _, field := range s.fields {
		largest = max(largest, field.findLargest(seen))
	}
	return max(largest, s.of.findLargest(seen))
}

// guess returns at most how many bytes data needs when it is decoded, besides its
// strings and raw values. It takes no time, and is often several times too much.
func (s *shape) guess(data []byte) int64 {
	// An object of a list comes from a { or from null; what is neither is small.
	objects := int64(bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("null")))
	others := int64(bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")))
	return objects*s.largest + others*growth*int64(reflect.TypeFor[[]byte]().Size())
}

// footprint is guess by walking through data. It stops at limit.
func (s *shape) footprint(data []byte, limit int64) (int64, error) {
	w := walk{text: jsontext.NewDecoder(bytes.NewBuffer(data), counting), limit: limit}
	if err := w.value(s); err != nil {
		return 0, err
	}
	return w.bytes, nil
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

// walk adds up what the values of a body need.
type walk struct {
	text  *jsontext.Decoder
	bytes int64
	limit int64
}

func (w *walk) add(n int64) error {
	if w.bytes += n; w.bytes > w.limit {
		return &FootprintError{Limit: w.limit}
	}
	return nil
}

// value reads one value of shape s. What does not fit the shape needs nothing: it
// is for the decoder to refuse.
func (w *walk) value(s *shape) error {
	kind := w.text.PeekKind()
	switch {
	case s.kind == reflect.Pointer && kind != 'n':
		if err := w.add(s.size); err != nil {
			return err
		}
		return w.value(s.of)
	case s.kind == reflect.Interface:
		start := w.text.InputOffset()
		if err := w.text.SkipValue(); err != nil {
			return err
		}
		return w.add(dense * (w.text.InputOffset() - start))
	case s.kind == reflect.Slice && kind == '[', s.kind == reflect.Array && kind == '[':
		return w.parts(func() error { return w.element(s) })
	case (s.kind == reflect.Map || s.kind == reflect.Struct) && kind == '{':
		return w.parts(func() error { return w.member(s) })
	}
	return w.text.SkipValue()
}

// parts reads what is between the brackets.
func (w *walk) parts(next func() error) error {
	if _, err := w.text.ReadToken(); err != nil {
		return err
	}
	for kind := w.text.PeekKind(); kind != ']' && kind != '}'; kind = w.text.PeekKind() {
		if err := next(); err != nil {
			return err
		}
	}
	_, err := w.text.ReadToken()
	return err
}

func (w *walk) element(s *shape) error {
	if err := w.add(s.size); err != nil {
		return err
	}
	return w.value(s.of)
}

func (w *walk) member(s *shape) error {
	name, err := w.text.ReadToken()
	if err != nil {
		return err
	}
	if s.kind == reflect.Map {
		return w.element(s)
	}
	field := s.fields[name.String()]
	if field == nil {
		return w.text.SkipValue()
	}
	return w.value(field)
}
