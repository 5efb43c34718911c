package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Loose is what a reader less strict than Decode could take from a response: one that takes names
// in any case, any of several members of one name, text that is not UTF-8, NaN, another kind, a
// body that is cut off, or what follows the first object.
type Loose struct {
	// Refuses tells that a status other than Success can be read, or that the first object is
	// complete and has none.
	Refuses bool
	// Status is the first such status; empty for one that is missing or not a string.
	Status string
	// RetryAfterSeconds is the smallest retryAfterSeconds other than 0 that can be read; 0 for
	// none. It is at least 1.
	RetryAfterSeconds int32
	// Message is the first message that can be read, as UTF-8.
	Message string
	// HasStatus tells that a status can be read.
	HasStatus bool
}

// ReadLoosely reads the status, the retryAfterSeconds and the message of a response. Its time is
// linear in the body; it copies names and texts of top-level members only.
func ReadLoosely(data []byte) Loose {
	var l Loose
	// Readers in some languages skip a byte order mark.
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	members(data, func(name string, value []byte) {
		switch {
		case strings.EqualFold(name, "status"):
			l.status(value)
		case strings.EqualFold(name, "retryAfterSeconds"):
			l.retry(value)
		case strings.EqualFold(name, "message") && l.Message == "":
			l.Message, _ = text(value)
		}
	}, func() { l.Refuses = l.Refuses || !l.HasStatus })
	// encoding/json reads null as an object without members.
	l.Refuses = l.Refuses || !l.HasStatus && bytes.HasPrefix(data, []byte("null"))
	return l
}

func (l *Loose) status(value []byte) {
	l.HasStatus = true
	if status, _ := text(value); status != "Success" && !l.Refuses {
		l.Refuses, l.Status = true, status
	}
}

func (l *Loose) retry(value []byte) {
	digits := string(value)
	if s, ok := text(value); ok {
		digits = strings.TrimSpace(s)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if n == 0 || math.IsNaN(n) || err != nil && !math.IsInf(n, 0) {
		return
	}
	seconds := int32(min(max(n, 1), math.MaxInt32))
	if l.RetryAfterSeconds == 0 || seconds < l.RetryAfterSeconds {
		l.RetryAfterSeconds = seconds
	}
}

// text returns the content of a JSON string, and whether value is one.
func text(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	var s string
	// What is no UTF-8 becomes U+FFFD.
	if json.Unmarshal(value, &s) != nil {
		// It has control characters.
		s = strings.ToValidUTF8(strings.Trim(string(value), `"`), "\uFFFD")
	}
	return s, true
}

// members calls visit for the members of the top-level objects of data, which need not be JSON.
// A value that is an object or an array is passed as its first byte. It calls ended at the end
// of each such object.
func members(data []byte, visit func(name string, value []byte), ended func()) {
	var name string
	// named tells that the value of a member of a top-level object is next.
	depth, inObject, named := 0, false, false
	for token := next(data); token != nil; token = next(data) {
		data = data[len(token):]
		if topmost := depth == 1 && inObject; topmost && named && !bytes.ContainsAny(token[:1], " \t\r\n:,}]") {
			visit(name, token)
			named = false
		} else if topmost && token[0] == '"' {
			name, _ = text(token)
		} else if topmost {
			named = token[0] == ':' || named && token[0] != ','
		}
		switch token[0] {
		case '{', '[':
			depth++
			inObject = inObject || depth == 1 && token[0] == '{'
		case '}', ']':
			depth = max(depth-1, 0)
			if depth == 0 && inObject {
				ended()
			}
			inObject = inObject && depth > 0
		}
	}
}

// next returns the first token of data: a string, a punctuation mark, a byte of white space, or
// what stands between; nil for one that is cut off, and at the end.
func next(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	switch data[0] {
	case '{', '}', '[', ']', ':', ',', ' ', '\t', '\r', '\n':
		return data[:1]
	case '"':
		return quoted(data)
	}
	end := bytes.IndexAny(data, "{}[]:,\" \t\r\n")
	if end < 0 {
		return nil
	}
	return data[:end]
}

// quoted returns the string that data begins with; nil for one without an end.
func quoted(data []byte) []byte {
	for end := 1; ; end++ {
		i := bytes.IndexByte(data[end:], '"')
		if i < 0 {
			return nil
		}
		end += i
		before := bytes.TrimRight(data[:end], `\`)
		if (end-len(before))%2 == 0 {
			return data[:end+1]
		}
	}
}
