package wire

import (
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

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
