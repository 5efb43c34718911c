package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// chunk is how much memory raw values share. A value that is kept keeps its chunk.
	chunk = 16 << 10
	// longest is the length of the longest string that is remembered.
	longest = 64
)

// decoder decodes one body at a time.
type decoder struct {
	text  *jsontext.Decoder
	input bytes.Buffer
	left  int
	chunk []byte
	// recent holds strings that were read lately: bodies repeat themselves.
	recent [256]string
}

var decoders = sync.Pool{New: func() any { return newDecoder() }}

func newDecoder() *decoder { return &decoder{text: jsontext.NewDecoder(new(bytes.Buffer))} }

// decode reads exactly one value from data into what the pointer into points to.
func (d *decoder) decode(data []byte, into any) error {
	d.input = *bytes.NewBuffer(data)
	d.left = len(data)
	d.text.Reset(&d.input, options)
	defer func() { d.input, d.chunk = bytes.Buffer{}, nil }()
	v := reflect.ValueOf(into).Elem()
	if err := d.value(planFor(v.Type()), v); err != nil {
		return err
	}
	switch _, err := d.text.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("there is more than one value")
}

// value reads the next value into v, which must be empty.
func (d *decoder) value(p *plan, v reflect.Value) error {
	switch next := d.text.PeekKind(); {
	case p.kind == aRaw:
		raw, err := d.raw()
		if len(raw) > 0 {
			v.Field(0).SetBytes(raw)
		}
		return err
	case p.kind == aPointer && next != 'n':
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(p.of, v.Elem())
	case p.kind == aStruct && next == '{':
		return d.members(p, v)
	case p.kind == aList && next == '[':
		return d.items(p, v)
	case p.kind == labels && next == '{':
		return d.labels(v.Addr().Interface().(*map[string]string))
	case p.kind == aString && next == '"':
		s, err := d.string()
		v.SetString(s)
		return err
	case p.kind == aBool && (next == 't' || next == 'f'):
		token, err := d.text.ReadToken()
		if err == nil {
			v.SetBool(token.Bool())
		}
		return err
	case p.kind == anInt && next == '0':
		return d.int(v)
	}
	return json.UnmarshalDecode(d.text, v.Addr().Interface())
}

func (d *decoder) members(p *plan, v reflect.Value) error {
	if _, err := d.text.ReadToken(); err != nil {
		return err
	}
	for d.text.PeekKind() != '}' {
		name, err := d.unquoted()
		if err != nil {
			return err
		}
		if i, ok := p.names[string(name)]; ok {
			err = d.value(p.fields[i].plan, p.fields[i].of(v))
		} else {
			err = d.text.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.text.ReadToken()
	return err
}

func (d *decoder) items(p *plan, v reflect.Value) error {
	if _, err := d.text.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; d.text.PeekKind() != ']'; n++ {
		if n == v.Cap() {
			v.Grow(1)
			v.SetLen(v.Cap())
		}
		if err := d.value(p.of, v.Index(n)); err != nil {
			return err
		}
	}
	if n == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	v.SetLen(n)
	_, err := d.text.ReadToken()
	return err
}

func (d *decoder) labels(to *map[string]string) error {
	if _, err := d.text.ReadToken(); err != nil {
		return err
	}
	*to = map[string]string{}
	for d.text.PeekKind() != '}' {
		key, err := d.string()
		if err != nil {
			return err
		}
		var value string
		if d.text.PeekKind() == '"' {
			value, err = d.string()
		} else {
			err = json.UnmarshalDecode(d.text, &value)
		}
		if err != nil {
			return err
		}
		(*to)[key] = value
	}
	_, err := d.text.ReadToken()
	return err
}

func (d *decoder) int(v reflect.Value) error {
	text, err := d.text.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(text), 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("%s: %w", d.text.StackPointer(), err)
	}
	v.SetInt(n)
	return nil
}

// raw copies the next value, next to the last one. As in the UnmarshalJSON of the
// types of raw values, null is nothing.
func (d *decoder) raw() ([]byte, error) {
	value, err := d.text.ReadValue()
	if err != nil || value.Kind() == 'n' {
		return nil, err
	}
	n := len(value)
	if n > cap(d.chunk)-len(d.chunk) {
		d.chunk = make([]byte, 0, max(n, min(chunk, d.left)))
	}
	d.left -= n
	start := len(d.chunk)
	d.chunk = append(d.chunk, value...)
	return d.chunk[start:len(d.chunk):len(d.chunk)], nil
}

// unquoted reads a string, which is valid until the next read.
func (d *decoder) unquoted() ([]byte, error) {
	text, err := d.text.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case bytes.IndexByte(text, '\\') >= 0:
		return jsontext.AppendUnquote(nil, text)
	}
	return text[1 : len(text)-1], nil
}

func (d *decoder) string() (string, error) {
	text, err := d.unquoted()
	if len(text) == 0 || len(text) > longest {
		return string(text), err
	}
	const ends = 4
	hash := uint32(len(text))
	for _, c := range text[:min(len(text), ends)] {
		hash = hash*31 + uint32(c)
	}
	for _, c := range text[max(len(text)-ends, 0):] {
		hash = hash*31 + uint32(c)
	}
	known := &d.recent[hash%uint32(len(d.recent))]
	if *known != string(text) {
		*known = string(text)
	}
	return *known, err
}
