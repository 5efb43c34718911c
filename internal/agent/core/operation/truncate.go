package operation

import "strings"

// Truncate returns text in at most so many bytes, as a status may hold it. It cuts between
// characters, and replaces what is no UTF-8, as encoding/json would: a text that the journal or the
// API returns is then the one that was put there.
func Truncate(text string, most int) string {
	const end = "..."
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(end)], "") + end
}
