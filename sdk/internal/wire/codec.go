package wire

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Encode returns obj as JSON, or nothing if it fails.
func Encode(obj runtime.Object) ([]byte, error) {
	data, err := json.Marshal(obj, optionsFor(obj, writing))
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return data, nil
}

// Decode reads exactly one JSON object from the body into obj, which must be empty.
// Unknown fields are skipped, as a newer peer may send them. Apart from malformed
// JSON it refuses duplicate names, anything after the object, and an apiVersion
// or kind other than want; an absent apiVersion or kind is accepted. Memory for
// what the body becomes is reserved: it fails with a *FootprintError if that
// exceeds the budget, and with ErrBusy. While half of the budget is free a guess
// is good enough, beyond it values are counted as they are decoded.
func (b *Body) Decode(ctx context.Context, obj runtime.Object, want schema.GroupVersionKind) error {
	guess := needsOf(obj).guess(b.data)
	switch {
	case b.small && guess <= freeFootprint:
	case b.budget.used.Load()+guess > b.budget.limit/2:
		return decode(b.data, obj, want, b.counted(ctx))
	default:
		if err := b.reserveBytes(ctx, int64(len(b.data))+guess); err != nil {
			return err
		}
	}
	return decode(b.data, obj, want)
}

// Loose reads what a reader less strict than Decode could take from a response.
func (b *Body) Loose() Loose { return ReadLoosely(b.data) }

// Decode is Body.Decode for bytes whose memory is accounted for elsewhere.
func Decode(data []byte, obj runtime.Object, want schema.GroupVersionKind) error {
	return decode(data, obj, want)
}

func decode(data []byte, obj runtime.Object, want schema.GroupVersionKind, functions ...*json.Unmarshalers) error {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("decode: the body is not a JSON object")
	}
	// A depth limit comes with jsontext, which refuses more than 10,000 levels.
	if err := json.Unmarshal(data, obj, optionsFor(obj, reading, functions...)); err != nil {
		return fmt.Errorf("decode %s: %w", want.Kind, err)
	}
	got := obj.GetObjectKind().GroupVersionKind()
	sameVersion := got.Version == "" && got.Group == "" || got.GroupVersion() == want.GroupVersion()
	if sameVersion && (got.Kind == "" || got.Kind == want.Kind) {
		return nil
	}
	return &KindError{Got: got, Want: want}
}

// KindError tells that a body holds another kind of object than expected.
type KindError struct {
	// Got is what the body says it is, Want what was expected.
	Got, Want schema.GroupVersionKind
}

// Error implements error.
func (e *KindError) Error() string {
	return fmt.Sprintf("the body is a %q of %q, want %q of %q", e.Got.Kind, e.Got.GroupVersion(), e.Want.Kind, e.Want.GroupVersion())
}

// DrainLimit is how much of an unread body is discarded to keep a connection.
const DrainLimit = 64 << 10

// Drain reads what is left of a short body, so that its connection can be used again.
func Drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, DrainLimit)
}

// reading and writing keep the meaning of encoding/json, for which the types of
// Kubernetes are written and with which Cluster API reads and answers hooks, and add what
// a protocol needs: no duplicates, valid UTF-8. FuzzAsEncodingJSON holds that these are all
// differences. Names in another case count, as a value that is wrong there does: an answer
// that is an error to Cluster API is none to be taken for a success.
var (
	reading = json.JoinOptions(
		jsonv1.DefaultOptionsV1(),
		jsontext.AllowDuplicateNames(false),
		jsontext.AllowInvalidUTF8(false),
		// As encoding/json does it, a body is read twice, and its errors do not say
		// which name is there twice.
		jsonv1.ReportErrorsWithLegacySemantics(false),
	)
	// writing leaves to the reader what only it must be strict about: raw values in
	// what we send are checked to be JSON and are otherwise sent as they are.
	writing = json.JoinOptions(reading,
		jsontext.AllowDuplicateNames(true),
		// Sorting the keys of maps costs a sixth; no peer needs it.
		json.Deterministic(false),
		jsontext.EscapeForHTML(false),
		jsontext.EscapeForJS(false),
	)
	// numbersRead and numbersWritten read and write the standard library's json.Number, which is a
	// string to another JSON package until encoding/json is made of encoding/json/v2.
	numbersRead = json.UnmarshalFromFunc(func(d *jsontext.Decoder, n *stdjson.Number) error {
		if isName(d.StackIndex(d.StackDepth())) {
			return errors.ErrUnsupported
		}
		return (*jsonv1.Number)(n).UnmarshalJSONFrom(d)
	})
	numbersWritten = json.MarshalToFunc(func(e *jsontext.Encoder, n stdjson.Number) error {
		if isName(e.StackIndex(e.StackDepth())) {
			return errors.ErrUnsupported
		}
		return jsonv1.Number(n).MarshalJSONTo(e)
	})
)

// isName tells whether the name of a member is next: any string, also where a map
// has numbers as its keys.
func isName(within jsontext.Kind, length int64) bool { return within == '{' && length%2 == 0 }

// optionsFor returns options with what an object of this type needs besides, and with functions
// for reading. Few need numbers: functions for a type cost a look-up for each value of any type.
func optionsFor(object any, options json.Options, functions ...*json.Unmarshalers) json.Options {
	n := needsOf(object)
	if n.numbers {
		functions = append(functions, numbersRead)
		options = json.JoinOptions(options, json.WithMarshalers(numbersWritten))
	}
	if len(functions) > 0 {
		options = json.JoinOptions(options, json.WithUnmarshalers(json.JoinUnmarshalers(functions...)))
	}
	if n.lenient {
		options = json.JoinOptions(options, jsonv1.ReportErrorsWithLegacySemantics(true))
	}
	return options
}
