package hostlog

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/redact"
)

// maxLine is how many bytes of a line are answered.
const maxLine = 4 << 10

// answer gathers lines until they are written. It keeps the last ones that fit into status.text, and numbers
// all, so that a reader sees that some are missing.
type answer struct {
	redact redact.Lines
	// raw are lines as the host has them, not redacted yet, and rawBytes is their length.
	raw      []rawLine
	rawBytes int
	lines    []string
	// bytes of lines, and of all lines that there were.
	bytes, total int
	// next is the number of the next line, from 0.
	next int64
}

// rawLine is a line as the host has it.
type rawLine struct {
	text []byte
	more int
}

// keep adds a line that redact processes later, unless later lines need its room: redacting a long log
// needs seconds.
func (a *answer) keep(line []byte, more int) {
	a.raw, a.rawBytes = append(a.raw, rawLine{bytes.Clone(line), more}), a.rawBytes+len(line)
	for a.rawBytes > infrav1.HostLogMaxText {
		a.rawBytes, a.next = a.rawBytes-len(a.raw[0].text), a.next+1
		a.raw = a.raw[1:]
	}
}

// process adds the lines that were kept.
func (a *answer) process() {
	for _, line := range a.raw {
		a.add(line.text, line.more)
	}
	a.raw, a.rawBytes = nil, 0
}

// add appends a line as the host has it; more is how many bytes at its end were not read.
func (a *answer) add(line []byte, more int) {
	text := a.redact.Line(visible(string(bytes.TrimRight(line, "\r\n"))))
	if cut := len(text) - maxLine; cut > 0 {
		end := maxLine
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text, more = text[:end], more+len(text)-end
	}
	if more > 0 {
		text += fmt.Sprintf("… (%d more bytes)", more)
	}
	text += "\n"
	a.lines, a.bytes, a.total, a.next = append(a.lines, text), a.bytes+len(text), a.total+len(text), a.next+1
	for a.bytes > infrav1.HostLogMaxText {
		a.bytes -= len(a.lines[0])
		a.lines = a.lines[1:]
	}
}

// pending returns the lines that were gathered, with the number of the first one, from 1. They stay until
// they are dropped.
func (a *answer) pending() (first int64, text string, n int) {
	return a.next - int64(len(a.lines)) + 1, strings.Join(a.lines, ""), len(a.lines)
}

// drop forgets lines that were written. Those that had to give way to later ones are gone already.
func (a *answer) drop(first int64, n int) {
	gone := min(max(0, int(first+int64(n)-1-(a.next-int64(len(a.lines))))), len(a.lines))
	for _, line := range a.lines[:gone] {
		a.bytes -= len(line)
	}
	a.lines = a.lines[gone:]
}

// visible escapes what steers a terminal: control characters but the tab, those that change the
// direction of text or begin a line, and bytes that are not UTF-8.
func visible(line string) string {
	var b strings.Builder
	for i, r := range line {
		switch {
		case r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, line[i])
		case unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
