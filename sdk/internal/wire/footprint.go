package wire

import (
	"bytes"
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A list of a million empty objects is 3 MB on the wire and hundreds in memory.
// A shape tells what a body becomes before it is decoded.

const (
	// growth is by how much a growing list or map may exceed what it holds.
	growth = 2
	// word is the size of a pointer.
	word = 8
	// header is what a value in an interface needs: that of a slice is the largest.
	header = 3 * word
	// mapHeader is what a map needs besides its entries, slots how many of those it
	// has room for from the first one on.
	mapHeader, slots = 8 * word, 8
)

// shape is what memory the JSON of a Go type needs. Leaves have no parts: strings
// and raw values need no more than the body has.
type shape struct {
	kind reflect.Kind
	// own is what a value needs besides its place in what holds it: what a pointer
	// points to, a map without entries. part is what each of its elements needs.
	own, part int64
	fields    map[string]*shape
	of        *shape
	// lenient tells that the tags of a struct are not as encoding/json/v2 wants them.
	lenient bool
}

// summary is what shapeOf tells of the shape of an object.
type summary struct {
	*shape
	// object is the most that an object or null below may need, other the most that
	// any other value may.
	object, other int64
	// numbers tells that there may be a json.Number below, lenient that a struct is so.
	numbers, lenient bool
}

// counting leaves it to the decoder to be strict.
var counting = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var (
	shapes   sync.Map // reflect.Type to *summary
	decoding = []reflect.Type{
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
	leaf   = &shape{}
	number = &shape{}
	// anything is the shape of an interface, and of what is in it.
	anything = newAnything()
)

func newAnything() *shape {
	const pair = 4 * word
	s := &shape{kind: reflect.Interface, own: mapHeader + slots*pair, part: growth * pair}
	s.of = s
	return s
}

// shapeOf returns the shape of an object's type.
func shapeOf(object any) *summary {
	t := reflect.TypeOf(object)
	if known, ok := shapes.Load(t); ok {
		return known.(*summary)
	}
	s := &summary{shape: newShape(t.Elem(), map[reflect.Type]*shape{})}
	s.need(0, s.shape)
	s.add(s.shape, map[*shape]bool{})
	shapes.Store(t, s)
	return s
}

func newShape(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s, ok := known[t]; ok {
		return s
	}
	switch {
	case t == reflect.TypeFor[stdjson.Number]():
		return number
	case t.Kind() == reflect.Interface:
		return anything
	case slices.ContainsFunc(decoding, reflect.PointerTo(t).Implements), isText(t):
		return leaf
	}
	s := &shape{kind: t.Kind()}
	known[t] = s
	switch t.Kind() {
	case reflect.Struct:
		s.fields, s.lenient = map[string]*shape{}, objectedTo(t)
		s.addFields(t, known)
	case reflect.Pointer:
		s.own, s.of = allocated(t.Elem()), newShape(t.Elem(), known)
	case reflect.Slice, reflect.Array:
		s.part, s.of = growth*int64(t.Elem().Size()), newShape(t.Elem(), known)
	case reflect.Map:
		pair := int64(t.Key().Size() + t.Elem().Size())
		s.own, s.part, s.of = mapHeader+slots*pair, growth*pair, newShape(t.Elem(), known)
	default:
	}
	return s
}

// isText tells whether the values of t are no larger than their text.
func isText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Map:
		return false
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() == reflect.Uint8
	default:
		return true
	}
}

// allocated returns what a value of t takes that is made for itself: the allocator
// rounds up by at most an eighth.
func allocated(t reflect.Type) int64 {
	const rounding = 8
	return int64(t.Size()) + int64(t.Size())/rounding + word
}

// addFields adds the fields of t, and of the structs embedded in it as far as none
// that is less deep has the same name. They are promoted also from structs that are
// not exported, and from those behind a pointer, which a value of t then owns.
func (s *shape) addFields(t reflect.Type, known map[reflect.Type]*shape) {
	seen := map[reflect.Type]bool{t: true}
	for level := []reflect.Type{t}; len(level) > 0; {
		var next []reflect.Type
		fields := map[string]*shape{}
		for _, t := range level {
			for field := range t.Fields() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				embedded := field.Type
				if embedded.Kind() == reflect.Pointer {
					embedded = embedded.Elem()
				}
				switch {
				case field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous:
				case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
					if seen[embedded] {
						continue
					}
					seen[embedded] = true
					next = append(next, embedded)
					if embedded != field.Type {
						s.own += allocated(embedded)
					}
				case name == "":
					if _, tagged := fields[field.Name]; !tagged {
						fields[field.Name] = newShape(field.Type, known)
					}
				default:
					fields[name] = newShape(field.Type, known)
				}
			}
		}
		maps.Copy(fields, s.fields)
		s.fields, level = fields, next
	}
}

// add adds the needs of s and of what is below.
func (sum *summary) add(s *shape, seen map[*shape]bool) {
	if seen[s] {
		return
	}
	seen[s] = true
	sum.lenient = sum.lenient || s.lenient
	sum.numbers = sum.numbers || s == number || s.kind == reflect.Interface
	if s.of != nil {
		sum.need(s.part, s.of)
		sum.add(s.of, seen)
	}
	for _, field := range s.fields {
		sum.need(0, field)
		sum.add(field, seen)
	}
}

// need notes that a value of s needs so much for its place.
func (sum *summary) need(place int64, s *shape) {
	for ; s.kind == reflect.Pointer; s = s.of {
		place += s.own
	}
	switch s.kind {
	case reflect.Struct, reflect.Map:
		sum.object = max(sum.object, place+s.own)
	case reflect.Interface:
		sum.object = max(sum.object, place+s.own)
		sum.other = max(sum.other, place+header)
	default:
		// null has the place of an object, and may be anything.
		sum.object, sum.other = max(sum.object, place), max(sum.other, place)
	}
}

// guess returns at most how many bytes data needs when it is decoded, besides its
// strings and raw values. It takes no time, and is often several times too much.
func (sum *summary) guess(data []byte) int64 {
	// null needs the place of an object; the first member of one follows no comma.
	objects := int64(bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("null")))
	others := int64(bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")))
	return objects*sum.object + others*sum.other
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
	list := s.kind == reflect.Slice || s.kind == reflect.Array
	object := s.kind == reflect.Map || s.kind == reflect.Struct
	switch {
	case s.kind == reflect.Pointer && kind != 'n':
		if err := w.add(s.own); err != nil {
			return err
		}
		return w.value(s.of)
	case list && kind == '[':
		return w.parts(0, func() error { return w.element(s) })
	case (object || s == anything) && kind == '{':
		return w.parts(s.own, func() error { return w.member(s) })
	case s == anything && kind == '[':
		return w.parts(header, func() error { return w.element(s) })
	case s == anything:
		if err := w.add(header); err != nil {
			return err
		}
	}
	return w.text.SkipValue()
}

// parts reads what is between the brackets of a value that needs so much itself.
func (w *walk) parts(own int64, next func() error) error {
	if err := w.add(own); err != nil {
		return err
	}
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
	if err := w.add(s.part); err != nil {
		return err
	}
	return w.value(s.of)
}

func (w *walk) member(s *shape) error {
	name, err := w.text.ReadToken()
	if err != nil {
		return err
	}
	if s.kind != reflect.Struct {
		return w.element(s)
	}
	field := s.fields[name.String()]
	if field == nil {
		return w.text.SkipValue()
	}
	return w.value(field)
}
