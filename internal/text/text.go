// Package text fits texts of others into messages, tables and conditions. It imports nothing of this
// module, and every package may import it.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// OneLine joins the lines and words of a text by single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Printable is OneLine of what programs and devices say: what is no UTF-8 is dropped, and what cannot be
// printed is a space.
func Printable(s string) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	return strings.Join(words, " ")
}

// Plural counts things, as in 1 host and 2 hosts.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// List names the first items of a list, and counts the rest: "a, b and 3 more".
func List(items []string, most int) string {
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}

// Start returns a text up to so many bytes, between two characters, and "..." if there was more. What is no
// UTF-8 is replaced, as the API server refuses it.
func Start(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
