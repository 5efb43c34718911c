package redact

import "regexp"

// longestKey is how many lines a private key goes over at most: one of 16,384 bits has 200. What
// only resembles the begin of one hides no more than that.
const longestKey = 256

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	keyEnds   = regexp.MustCompile(`^.*?-----END [A-Z ]*PRIVATE KEY-----`)
)

// Lines takes secrets out of a text line by line. The zero value is at its begin.
type Lines struct {
	Redactor
	// inKey is how many lines may follow of a private key that began and did not end.
	inKey int
}

// Line returns the next line without likely credentials. Lines of a private key go
// whole, whatever a log writes before them.
func (l *Lines) Line(line string) string {
	if l.inKey > 0 {
		l.inKey--
		end := keyEnds.FindString(line)
		if end == "" {
			return Mark
		}
		l.inKey = 0
		return Mark + l.Line(line[len(end):])
	}
	if begins := keyBegins.FindAllStringIndex(line, -1); len(begins) > 0 {
		if last := line[begins[len(begins)-1][1]:]; !keyEnds.MatchString(last) {
			l.inKey = longestKey
		}
	}
	return l.Text(line)
}
