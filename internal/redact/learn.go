package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// leastSecret is the shortest value that is looked for: shorter ones are words.
const leastSecret = 8

// Redactor replaces secrets. The zero value has learned none.
type Redactor struct {
	words    map[string]bool
	replacer *strings.Replacer
}

// open are keys of Secrets whose values are no secrets, and turn up everywhere.
var open = map[string]bool{
	"ca.crt": true, "namespace": true, "type": true, "description": true, "expiration": true, "auth-extra-groups": true, "token-id": true,
	"usage-bootstrap-authentication": true, "usage-bootstrap-signing": true, "server": true, "username": true,
}

// keyMaterial are words of a value that are secrets by themselves.
var keyMaterial = regexp.MustCompile(`[A-Za-z0-9+/=_-]{24,}`)

// Learn remembers a value of a Secret, by its key: as it is, as JSON, Go, URLs and base64 write
// it, and the keys in it.
func (r *Redactor) Learn(key string, value []byte) {
	text := strings.TrimSpace(string(value))
	if open[key] || len(text) < leastSecret {
		return
	}
	if r.words == nil {
		r.words = map[string]bool{}
	}
	r.replacer = nil
	r.words[text] = true
	for _, written := range []string{jsonText(text), goText(text), url.QueryEscape(text), url.PathEscape(text)} {
		r.words[written] = true
	}
	coded := base64.StdEncoding.EncodeToString(value)
	r.words[coded], r.words[strings.TrimRight(coded, "=")] = true, true
	for _, word := range keyMaterial.FindAllString(text, -1) {
		if mixed(word) {
			r.words[word] = true
		}
	}
}

// jsonText is a text within JSON, without its quotes.
func jsonText(text string) string {
	data, err := json.Marshal(text)
	if err != nil || len(data) < 2 {
		return text
	}
	return string(data[1 : len(data)-1])
}

// goText is a text as %q writes it, without its quotes.
func goText(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// known replaces what was learned, the longest first, so that of one within another nothing
// is left.
func (r *Redactor) known() *strings.Replacer {
	if r.replacer != nil {
		return r.replacer
	}
	words := make([]string, 0, len(r.words))
	for word := range r.words {
		words = append(words, word)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(words))
	for _, word := range words {
		pairs = append(pairs, word, Mark)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r.replacer
}
