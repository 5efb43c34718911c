package preflight

import (
	"fmt"
	"strings"
)

func good(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Message: fmt.Sprintf(format, args...)}}
}

func bad(level Level, remedy, format string, args ...any) []Finding {
	return []Finding{{Level: level, Message: fmt.Sprintf(format, args...), Remedy: remedy}}
}

// text returns a file's content without white space around it, empty when it
// cannot be read.
func (s *scope) text(path string) string {
	data, err := s.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// exists also holds for directories.
func (s *scope) exists(path string) bool { return len(s.Glob(path)) > 0 }
