package cloudconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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

// The plain scalars that are no text to cloud-init, by the YAML that it reads (PyYAML, which follows YAML 1.1 but for y and n).
var (
	notText = regexp.MustCompile(`^(?:|~|null|Null|NULL|<<|=|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF` +
		`|[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+` +
		`|[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)` +
		`|[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?(?:[Tt]|[ \t]+)[0-9][0-9]?:.*)$`)
	decimal = regexp.MustCompile(`^(?:0|-?[1-9][0-9]*)$`)
	// A number of base 60, which is text to the parser of this package: 33:33 is 2013.
	sixties = regexp.MustCompile(`^[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`)
	// A date is written as it stands, as long as there is such a day.
	date = regexp.MustCompile(`^[0-9]{4}-[0-9][0-9]-[0-9][0-9]$`)
)

// asWritten says whether cloud-init writes a word of a command that has no quotes as it stands: 1.0 and 7, but True for
// true, 420 for 0644 and 90 for 1:30.
func asWritten(word string) bool {
	if !notText.MatchString(word) {
		_, err := time.Parse(time.DateOnly, word)
		return !date.MatchString(word) || err == nil
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil || decimal.MatchString(word) {
		return decimal.MatchString(word)
	}
	// Python writes the shortest digits, and an exponent for what is smaller or larger.
	digits := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	return digits == word && (f == 0 || math.Abs(f) >= 1e-4) && math.Abs(f) < 1e16
}

// quoteText puts quotes around what is text to cloud-init and another value to the parser of this package: y, n, 08 and
// 1e3 anywhere, and numbers such as 1.0 as words of commands. It refuses words of commands that cloud-init writes in
// another way.
func quoteText(source string, document *yaml.Node) (string, error) {
	quote := map[*yaml.Node]bool{}
	var number *yaml.Node
	inspect(document, func(n *yaml.Node) {
		if number == nil && isPlain(n) && sixties.MatchString(n.Value) {
			number = n
		}
		quote[n] = isPlain(n) && !notText.MatchString(n.Value) && (n.ShortTag() != "!!str" || slices.Contains([]string{"y", "Y", "n", "N"}, n.Value))
	})
	if err := quoteWords(document, quote); err != nil {
		return "", err
	}
	if number != nil {
		return "", invalid("the cloud-config, line %d: without quotes, cloud-init reads a number of minutes or hours, as of 1:30; put the value in quotes", number.Line)
	}
	return quoted(source, document, quote)
}

// quoteWords adds the words of commands that are to be quoted.
func quoteWords(document *yaml.Node, quote map[*yaml.Node]bool) error {
	for _, key := range []string{"bootcmd", "runcmd"} {
		for i, item := range items(value(document, key)) {
			for _, word := range items(item) {
				switch tag := word.ShortTag(); {
				case strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!"):
					return invalid("%s[%d] in the cloud-config, line %d: the tag of a word is unknown; remove it", key, i, word.Line)
				case !isPlain(word):
				case !asWritten(word.Value):
					return invalid("%s[%d] in the cloud-config, line %d: a word without quotes is no text, such as true, 0644 or 1:30; put it in quotes", key, i, word.Line)
				case tag != "!!str" && !decimal.MatchString(word.Value):
					quote[word] = true
				}
			}
		}
	}
	return nil
}

// quoted is the source with quotes around the marked values, which must be all that differs.
func quoted(source string, document *yaml.Node, quote map[*yaml.Node]bool) (string, error) {
	lines := strings.Split(source, "\n")
	for _, n := range slices.SortedFunc(maps.Keys(quote), func(a, b *yaml.Node) int { // the last first, so that columns hold
		return cmp.Or(cmp.Compare(b.Line, a.Line), cmp.Compare(b.Column, a.Column))
	}) {
		if !quote[n] {
			continue
		}
		var line []rune
		if n.Line <= len(lines) { // YAML ends lines by other signs as well
			line = []rune(lines[n.Line-1])
		}
		at := min(n.Column-1, len(line))
		before, rest := string(line[:at]), string(line[at:])
		if n.Anchor != "" {
			anchored := strings.TrimLeft(strings.TrimPrefix(rest, "&"+n.Anchor), " ")
			before, rest = before+strings.TrimSuffix(rest, anchored), anchored
		}
		after, found := strings.CutPrefix(rest, n.Value)
		if !found {
			return "", invalid("the cloud-config, line %d: put the value in quotes", n.Line)
		}
		lines[n.Line-1] = before + "'" + n.Value + "'" + after
	}
	text := strings.Join(lines, "\n")
	again := yaml.Node{}
	if err := yaml.Unmarshal([]byte(text), &again); err != nil || !slices.Equal(values(document), values(&again)) {
		return "", invalid("the cloud-config has a value without quotes that is text to cloud-init only, such as y or 1e3, and signs that end lines in YAML; put such values in quotes")
	}
	return text, nil
}

// values are those of all scalars, in their order.
func values(document *yaml.Node) (all []string) {
	inspect(document, func(n *yaml.Node) { all = append(all, n.Value) })
	return all
}

// repeated names a key that a mapping has twice.
func repeated(document *yaml.Node) (err error) {
	inspect(document, func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			return
		}
		lines := map[string]int{}
		for at := 0; at+1 < len(n.Content); at += 2 {
			key := n.Content[at]
			if before := lines[key.Value]; before > 0 && err == nil && key.Kind == yaml.ScalarNode {
				err = invalid("line %d of the cloud-config repeats the key %.64q of line %d; write it once", key.Line, key.Value, before)
			}
			lines[key.Value] = key.Line
		}
	})
	return err
}

func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 }

// inspect visits a node and what is below it.
func inspect(n *yaml.Node, visit func(*yaml.Node)) {
	visit(n)
	for _, below := range n.Content {
		inspect(below, visit)
	}
}

// value is that of a key of the document.
func value(document *yaml.Node, key string) *yaml.Node {
	if len(document.Content) > 0 && document.Content[0].Kind == yaml.MappingNode {
		top := document.Content[0].Content
		for at := 0; at+1 < len(top); at += 2 {
			if top[at].Value == key {
				return top[at+1]
			}
		}
	}
	return &yaml.Node{}
}

// items are those of a list, with aliases resolved; none of anything else.
func items(n *yaml.Node) []*yaml.Node {
	if n = resolved(n); n.Kind != yaml.SequenceNode {
		return nil
	}
	all := make([]*yaml.Node, 0, len(n.Content))
	for _, item := range n.Content {
		all = append(all, resolved(item))
	}
	return all
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
