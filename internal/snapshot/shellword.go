package snapshot

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellWord quotes for a shell what a cluster or a machine told, for the commands that are shown to
// administrators. It is one line.
func ShellWord(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:@/+=[]", r)
	}) {
		return word
	}
	word = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, word)
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
