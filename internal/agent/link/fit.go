package link

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// boundsJSON is what the API takes of a Host's status. `make generate` writes it from the CRD.
//
//go:embed bounds.json
var boundsJSON []byte

// oldestFirst are the lists that are cut at their begin. All others begin with what matters most.
var oldestFirst = []string{"observedOperation.steps", "software.releases", "inventory.kubernetesVersions"}

// maxOmissions is the limit of status.omitted in the API.
const maxOmissions = 32

// bounds is a schema of OpenAPI, as far as a Host's status needs it.
type bounds struct {
	Type       string
	Properties map[string]*bounds
	Required   []string
	Values     *bounds `json:"additionalProperties"`
	Items      *bounds
	MaxItems   *int
	MinLength  int
	MaxLength  *int
	Minimum    *float64
	Maximum    *float64
	Pattern    string
	Enum       []string

	matches func() *regexp.Regexp
}

var statusBounds = sync.OnceValue(func() *bounds {
	b := &bounds{}
	if err := json.Unmarshal(boundsJSON, b); err != nil {
		panic(err) // A file of this package, which its tests read.
	}
	b.prepare(map[string]func() *regexp.Regexp{})
	return b
})

// prepare compiles each pattern once, when it is first needed.
func (b *bounds) prepare(known map[string]func() *regexp.Regexp) {
	if b.Pattern != "" {
		if known[b.Pattern] == nil {
			known[b.Pattern] = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(b.Pattern) })
		}
		b.matches = known[b.Pattern]
	}
	for _, p := range b.Properties {
		p.prepare(known)
	}
	for _, p := range []*bounds{b.Items, b.Values} {
		if p != nil {
			p.prepare(known)
		}
	}
}

// fit returns what the API takes of a status: texts and lists are cut to their limits, values
// that it does not take are left out, and status.omitted counts them by field. One value that the API
// refuses would take the whole report with it.
func fit(s *infrav1.HostStatus) (*infrav1.HostStatus, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var whole any
	if err := decoder.Decode(&whole); err != nil {
		return nil, err
	}
	omitted := map[string]int32{}
	whole, _ = statusBounds().fit("", whole, omitted)
	if body, err = json.Marshal(whole); err != nil {
		return nil, err
	}
	fitted := &infrav1.HostStatus{}
	if err := json.Unmarshal(body, fitted); err != nil {
		return nil, fmt.Errorf("decode the status that the API takes: %w", err)
	}
	for _, field := range slices.Sorted(maps.Keys(omitted)) {
		if len(fitted.Omitted) < maxOmissions {
			fitted.Omitted = append(fitted.Omitted, infrav1.HostOmission{Field: field, Count: omitted[field]})
		}
	}
	return fitted, nil
}

// fit returns what the API takes of a value; false for one that it does not take at all.
func (b *bounds) fit(path string, value any, omitted map[string]int32) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		inside := map[string]int32{}
		ok := b.fitObject(path, value, inside)
		if ok {
			for field, count := range inside {
				omitted[field] += count
			}
		}
		return value, ok
	case []any:
		return b.fitList(path, value, omitted), true
	case string:
		return b.fitText(value)
	case json.Number:
		n, err := value.Float64()
		ok := err == nil && (b.Minimum == nil || n >= *b.Minimum) && (b.Maximum == nil || n <= *b.Maximum)
		return value, ok && n <= math.MaxInt64
	}
	return value, true
}

func (b *bounds) fitObject(path string, object map[string]any, omitted map[string]int32) bool {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field := name
		if path != "" {
			field = path + "." + name
		}
		schema := b.Values
		if schema == nil {
			schema = b.Properties[name]
		}
		ok := false
		if schema != nil {
			object[name], ok = schema.fit(field, object[name], omitted)
		}
		if !ok {
			delete(object, name)
			omitted[field]++
		}
	}
	return !slices.ContainsFunc(b.Required, func(name string) bool { return object[name] == nil })
}

func (b *bounds) fitList(path string, list []any, omitted map[string]int32) []any {
	kept := make([]any, 0, len(list))
	for _, item := range list {
		if item, ok := b.Items.fit(path, item, omitted); ok {
			kept = append(kept, item)
		}
	}
	if b.MaxItems != nil && len(kept) > *b.MaxItems {
		if slices.Contains(oldestFirst, path) {
			kept = kept[len(kept)-*b.MaxItems:]
		} else {
			kept = kept[:*b.MaxItems]
		}
	}
	if left := len(list) - len(kept); left > 0 {
		omitted[path] += int32(left)
	}
	return kept
}

// fitText cuts a text that is too long. One of a form, such as a quantity, is taken or left out.
func (b *bounds) fitText(text string) (string, bool) {
	const end = "..."
	length := utf8.RuneCountInString(text)
	if b.MaxLength != nil && length > *b.MaxLength {
		text = string([]rune(text)[:*b.MaxLength-len(end)]) + end
	}
	if length < b.MinLength || len(b.Enum) > 0 && !slices.Contains(b.Enum, text) {
		return text, false
	}
	return text, b.matches == nil || b.matches().MatchString(text)
}
