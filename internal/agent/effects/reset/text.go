package reset

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is a name or a link's target as JSON keeps it. Those of the kernel are bytes, and JSON is text: two names that
// are not UTF-8 would become one. No name has the zero that marks such.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return notText + base64.RawStdEncoding.EncodeToString([]byte(s))
}

const notText = "\x00"

// untext undoes text.
func untext(s string) string {
	coded, is := strings.CutPrefix(s, notText)
	if !is {
		return s
	}
	raw, err := base64.RawStdEncoding.DecodeString(coded)
	if err != nil {
		return s
	}
	return string(raw)
}

// each changes the keys and values of a map that need it.
func each[V any](m map[string]V, key func(string) string, value func(V) V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[key(k)] = value(v)
	}
	return out
}

func same[V any](v V) V { return v }

// shown is a sentence with names in it as a message may have it: on one line, in its order, as text.
func shown(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += width
	}
	return b.String()
}
