package service

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PathError says that systemd cannot run a plane with such a path.
type PathError struct{ Path string }

func (e *PathError) Error() string {
	return fmt.Sprintf("%q: systemd takes absolute paths without quotes, backslashes and control characters: move it to one, such as /usr/local/bin or /var/lib/slipway", e.Path)
}

// checkPath refuses what systemd refuses in the path of a program (string_is_safe), and what
// would be another line of the file.
func checkPath(path string) error {
	if !filepath.IsAbs(path) || !utf8.ValidString(path) || strings.ContainsAny(path, `"'\`) || strings.ContainsFunc(path, unicode.IsControl) {
		return &PathError{path}
	}
	return nil
}

// word is a path as systemd reads it in a list and as the program of a command: in quotes,
// and with a percent sign that is none of a specifier.
func word(path string) string {
	return `"` + strings.ReplaceAll(path, "%", "%%") + `"`
}

// argument is a path as systemd reads it in the arguments of a command, where variables are
// replaced besides.
func argument(path string) string {
	return strings.ReplaceAll(word(path), "$", "$$")
}
