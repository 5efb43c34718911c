package cloudconfig

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
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

// asWritten are words without quotes that mean the same to cloud-init, whose YAML is another one: it reads y as text,
// 1:30 as ninety, and writes True for true and 1.0 for 1.0.
var (
	decimal     = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	otherValues = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[-+]?[0-9._]+e[-+]?[0-9]+)$`)
)

// checkWords refuses words of commands that are no text without quotes.
func checkWords(document *yaml.Node) error {
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	top := document.Content[0].Content
	for at := 0; at+1 < len(top); at += 2 {
		key := top[at].Value
		if key != "runcmd" && key != "bootcmd" {
			continue
		}
		for i, item := range resolved(top[at+1]).Content {
			if item = resolved(item); item.Kind != yaml.SequenceNode {
				continue
			}
			for _, word := range item.Content {
				word = resolved(word)
				plain := word.Kind == yaml.ScalarNode && word.Style == 0
				if tag := word.ShortTag(); plain && !decimal.MatchString(word.Value) && (tag != "!!str" && tag != "!!timestamp" || otherValues.MatchString(word.Value)) {
					return invalid("%s[%d] in the cloud-config has a word that is no text without quotes, such as true, y or 1.0; put it in quotes", key, i)
				}
			}
		}
	}
	return nil
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
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
