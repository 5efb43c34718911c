package wire

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// chunk is how much memory raw values share. A value that is kept keeps its chunk.
const chunk = 16 << 10

// decoder decodes one body at a time. Topology hooks carry hundreds of small raw
// values; the decoder copies them next to each other instead of one by one.
type decoder struct {
	text    *jsontext.Decoder
	input   bytes.Buffer
	options json.Options
	left    int
	chunk   []byte
}

var decoders = sync.Pool{New: func() any {
	d := &decoder{text: jsontext.NewDecoder(new(bytes.Buffer))}
	d.options = json.JoinOptions(options, json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, to *runtime.RawExtension) (err error) {
			to.Raw, err = d.raw(from)
			return err
		}),
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, to *apiextensionsv1.JSON) (err error) {
			to.Raw, err = d.raw(from)
			return err
		}),
	)))
	return d
}}

// raw copies the next value. As in the UnmarshalJSON of both types, null is nothing.
func (d *decoder) raw(from *jsontext.Decoder) ([]byte, error) {
	value, err := from.ReadValue()
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

// decode reads exactly one value from data.
func (d *decoder) decode(data []byte, into any) error {
	d.input = *bytes.NewBuffer(data)
	d.left = len(data)
	d.text.Reset(&d.input, d.options)
	defer func() { d.input, d.chunk = bytes.Buffer{}, nil }()
	if err := json.UnmarshalDecode(d.text, into); err != nil {
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
