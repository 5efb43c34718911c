package display

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible writes every control character but tab and newline visibly: those of C0 and C1, of which
// terminals take U+009B for the beginning of a sequence, those that change the direction of text or begin
// a line. Bytes that are not UTF-8 are replaced.
var visible = func() *strings.Replacer {
	pairs := []string{"\x1b", "^[", "\r", `\r`}
	for r := rune(0); r <= 0x2069; r++ {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) && !strings.ContainsRune("\t\n\r\x1b", r) {
			pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
		}
	}
	return strings.NewReplacer(pairs...)
}()

// Visible is text of clusters and machines that steers no terminal.
func Visible(text string) string {
	return visible.Replace(strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// WriteVisible writes text so that it steers no terminal.
func WriteVisible(out io.Writer, text string) error {
	_, err := io.WriteString(out, Visible(text))
	return err
}
