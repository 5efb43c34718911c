package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Mark stands where something was taken out.
const Mark = "REDACTED"

// named is the name of a credential and what parts it from the value, in JSON, YAML, headers,
// forms and logs.
const named = `(?i)((?:authorization|client-key-data|client-certificate-data|pass(?:word|wd|phrase)?|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|credentials?)\\?["']?[ \t]*[:=][ \t]*)`

// names are words of which one is in all that named matches, in lower case: text without any
// is ten times as fast.
var names = []string{"authorization", "client-certificate-data", "pass", "secret", "token", "key", "credential"}

// patterns of credentials in text, in the order in which they are replaced.
var patterns = []struct {
	find *regexp.Regexp
	by   string
}{
	// Also within JSON, where the lines of a key are parted by \n.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Mark},
	{regexp.MustCompile(named + `"(?:[^"\\]|\\.)*"`), `${1}"` + Mark + `"`},
	{regexp.MustCompile(named + `\\"[^"\\]*\\"`), `${1}\"` + Mark + `\"`},
	{regexp.MustCompile(named + `'[^']*'`), "${1}'" + Mark + "'"},
	// A header goes to the end of the line: schemes have any number of words.
	{regexp.MustCompile(`(?i)(authorization\\?["']?[ \t]*[:=][ \t]*\[?\\?["']?)[^"'\\\r\n{][^"'\\\r\n]*`), "${1}" + Mark},
	{regexp.MustCompile(named + `(?:(?:bearer|basic)[ \t]+)?[^\s"'\\}&{\[][^\s"'\\}&]*`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)\b(bearer[ \t]+)[a-z0-9._~+/=-]{8,}`), "${1}" + Mark},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Mark},
	// A bootstrap token.
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Mark},
	// Of a URL the user and the query.
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^\s/@"']+@`), "${1}" + Mark + "@"},
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s?"'<>]+\?)[^\s"'<>\\]+`), "${1}" + Mark},
}

// encoded is what may be a key, a certificate or a whole file in base64.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{60,}={0,2}`)

// Text returns text without what looks like a credential and without what was learned.
func (r *Redactor) Text(text string) string {
	text = r.known().Replace(text)
	lower := strings.ToLower(text)
	suspect := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(lower, name) })
	for _, p := range patterns {
		if !suspect && strings.HasPrefix(p.find.String(), named) {
			continue
		}
		text = p.find.ReplaceAllString(text, p.by)
	}
	return encoded.ReplaceAllStringFunc(text, func(run string) string {
		if mixed(run) {
			return Mark
		}
		return run
	})
}

// mixed says whether a word has what random base64 has; digests, paths and names have not.
func mixed(word string) bool {
	return strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsLower) && strings.ContainsFunc(word, unicode.IsDigit)
}
