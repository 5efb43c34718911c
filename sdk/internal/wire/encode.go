package wire

import (
	"encoding/base64"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// append appends the JSON of v, which must be addressable, to b.
func (p *plan) append(b []byte, v reflect.Value) ([]byte, error) {
	switch p.kind {
	case aStruct:
		return p.appendStruct(b, v)
	case aString:
		return appendString(b, v.String())
	case aBool:
		return strconv.AppendBool(b, v.Bool()), nil
	case anInt:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case aPointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return p.of.append(b, v.Elem())
	case aList:
		return p.appendList(b, v)
	case labels:
		return appendLabels(b, *v.Addr().Interface().(*map[string]string))
	case bytesOfBase64:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"'), nil
	case aRaw:
		if raw := v.Field(0).Bytes(); len(raw) > 0 {
			return jsontext.AppendFormat(b, raw, writing)
		}
	case byLibrary:
	}
	text, err := json.Marshal(v.Addr().Interface(), writing)
	return append(b, text...), err
}

func (p *plan) appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	start := len(b)
	for i := range p.fields {
		f := &p.fields[i]
		value := f.of(v)
		if f.omitted(value) {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, f.label...)
		if b, err = f.plan.append(b, value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func (p *plan) appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	if v.IsNil() {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = p.of.append(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendLabels(b []byte, m map[string]string) (_ []byte, err error) {
	if m == nil {
		return append(b, "null"...), nil
	}
	b = append(b, '{')
	start := len(b)
	for key, value := range m {
		if len(b) > start {
			b = append(b, ',')
		}
		if b, err = appendString(b, key); err != nil {
			return b, err
		}
		if b, err = appendString(append(b, ':'), value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// appendString quotes s. It fails if s is not UTF-8.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return jsontext.AppendQuote(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}
