package cloudconfig

import (
	"encoding/json"
	"fmt"
	"strings"
)

// commands turns a list of commands into lines of shell, as cloud-init does: a
// string is shell as it stands, a list is quoted word by word.
func commands(key string, m json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(m, &items); err != nil {
		return nil, invalid("%s in the cloud-config must be a list of commands", key)
	}
	lines := make([]string, 0, len(items))
	for i, item := range items {
		line, err := command(item)
		if err != nil {
			return nil, invalid("%s[%d] in the cloud-config %s", key, i, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func command(item json.RawMessage) (string, error) {
	var line string
	if json.Unmarshal(item, &line) == nil && !isNull(item) {
		if strings.ContainsRune(line, 0) {
			return "", fmt.Errorf("has a NUL byte")
		}
		return line, nil
	}
	var words []json.RawMessage
	if err := json.Unmarshal(item, &words); err != nil || len(words) == 0 {
		return "", fmt.Errorf("must be a string or a list of words")
	}
	quoted := make([]string, 0, len(words))
	for _, w := range words {
		word, err := text(w)
		if err != nil || strings.ContainsRune(word, 0) {
			return "", fmt.Errorf("has a word that is not text")
		}
		quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return strings.Join(quoted, " "), nil
}

// isNull reports whether a value was left empty.
func isNull(m json.RawMessage) bool { return string(m) == "null" }

// text takes a string, or a number or boolean as it was written.
func text(m json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(m, &s); err == nil && !isNull(m) {
		return s, nil
	}
	if len(m) == 0 || m[0] == '{' || m[0] == '[' || isNull(m) {
		return "", fmt.Errorf("is not text")
	}
	return string(m), nil
}
