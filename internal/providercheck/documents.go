package providercheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pkgerrors "github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Object is one YAML document, as clusterctl reads it.
type Object struct {
	File *File
	Line int
	// Fields of the object.
	Fields map[string]any
	// node has the lines; nil when only clusterctl can parse the document.
	node *yaml.Node
	// dropped is a line of what the document holds beside the object; 0 when it holds nothing else.
	dropped int
}

// chunk is a document with the separator before it.
type chunk struct {
	line int
	text []byte
}

// chunks splits a file where clusterctl does: at each line that begins with "---".
func chunks(text []byte) []chunk {
	all := []chunk{{line: 1}}
	line, begin, end := 1, 0, 0
	for l := range bytes.SplitAfterSeq(text, []byte("\n")) {
		if bytes.HasPrefix(l, []byte("---")) && end > begin {
			all[len(all)-1].text = text[begin:end]
			all, begin = append(all, chunk{line: line}), end
		}
		line++
		end += len(l)
	}
	all[len(all)-1].text = text[begin:]
	return all
}

// objects reads the documents of a text by clusterctl's own code, and beside it by a reader that
// knows lines.
func (f *File) objects(ctx context.Context, text []byte) (objects []*Object, err error) {
	for _, c := range chunks(text) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		read, err := utilyaml.ToUnstructured(c.text)
		if err != nil {
			return objects, c.located(err)
		}
		for _, u := range read {
			o := &Object{File: f, Line: c.line, Fields: u.Object}
			o.place(c)
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// metadata reads the first document of metadata.yaml, as clusterctl does, which replaces no variables there.
func (f *File) metadata() error {
	c, o := chunk{line: 1, text: f.Raw}, &Object{File: f, Line: 1}
	if err := sigsyaml.Unmarshal(c.text, &o.Fields); err != nil {
		return c.located(err)
	}
	if o.Fields != nil {
		o.place(c)
		f.Objects = []*Object{o}
	}
	return nil
}

// place finds the lines of an object in the text that it was read from.
func (o *Object) place(c chunk) {
	decoder := yaml.NewDecoder(bytes.NewReader(c.text))
	var document yaml.Node
	if decoder.Decode(&document) != nil || len(document.Content) == 0 {
		return
	}
	shift(&document, c.line-1)
	o.node = document.Content[0]
	o.Line = o.node.Line
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err == nil:
		if shift(&next, c.line-1); len(next.Content) > 0 && next.Content[0].Tag != "!!null" {
			o.dropped = next.Content[0].Line
		}
	default:
		o.dropped = lastLine(o.node)
	}
	// Without a separator the fields of a second object replace those of the first.
	if kinds := keys(o.node, "kind"); len(kinds) > 1 {
		o.dropped = kinds[1].Line
	}
}

// keys are those of a name in a mapping.
func keys(mapping *yaml.Node, name string) (found []*yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for pair := range slices.Chunk(mapping.Content, 2) {
		if pair[0].Value == name {
			found = append(found, pair[0])
		}
	}
	return found
}

func shift(node *yaml.Node, lines int) {
	node.Line += lines
	for _, child := range node.Content {
		shift(child, lines)
	}
}

func lastLine(node *yaml.Node) int {
	for len(node.Content) > 0 {
		node = node.Content[len(node.Content)-1]
	}
	return node.Line
}

// inLine is how the parser names the line of an error.
var inLine = regexp.MustCompile(`\bline (\d+)`)

// located is an error of a document with the line of the file.
func (c chunk) located(err error) error {
	line := c.line
	if bytes.HasPrefix(c.text, []byte("---")) {
		line++ // clusterctl parses what follows the separator
	}
	message := pkgerrors.Cause(err).Error()
	at := line
	if match := inLine.FindStringSubmatch(message); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			at = line + n - 1
			message = strings.Replace(message, match[0], fmt.Sprintf("line %d", at), 1)
		}
	}
	return lineError{line: at, err: fmt.Errorf("clusterctl cannot read the document: %s", message)}
}

// change is a value that clusterctl reads otherwise than it is written.
type change struct {
	path []string
	line int
	// written is what the file says, and read is what clusterctl makes of it.
	written, read string
}

// changes compares what is written with what clusterctl has read.
func (o *Object) changes(found func(change)) {
	if o.node != nil {
		compare(o.node, o.Fields, nil, found)
	}
}

func compare(node *yaml.Node, read any, path []string, found func(change)) {
	switch node.Kind {
	case yaml.MappingNode:
		fields, _ := read.(map[string]any)
		last := map[string]int{} // of keys that are called alike, the last one counts
		for i := 0; i+1 < len(node.Content); i += 2 {
			last[node.Content[i].Value] = i
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Tag == "!!merge" || key.Kind != yaml.ScalarNode || last[key.Value] != i {
				continue
			}
			got, ok := fields[key.Value]
			if at := append(slices.Clone(path), key.Value); ok {
				compare(value, got, at, found)
			} else if fields != nil {
				found(change{at, key.Line, key.Value, "another name"})
			}
		}
	case yaml.SequenceNode:
		items, _ := read.([]any)
		for i, item := range node.Content {
			if i < len(items) {
				compare(item, items[i], append(slices.Clone(path), fmt.Sprint(i)), found)
			}
		}
	case yaml.ScalarNode:
		if got, same := scalar(node, read, path); !same {
			found(change{path, node.Line, node.Value, got})
		}
	default: // an alias is as its anchor, which stands elsewhere
	}
}

// scalar says whether a value is read as it is written.
func scalar(node *yaml.Node, read any, path []string) (got string, same bool) {
	if node.Style&yaml.TaggedStyle != 0 {
		return "", true
	}
	switch read := read.(type) {
	case string:
		return strconv.Quote(read), read == node.Value
	case bool:
		return strconv.FormatBool(read), strings.EqualFold(node.Value, strconv.FormatBool(read))
	case float64:
		got = strconv.FormatFloat(read, 'f', -1, 64)
		mode := len(path) > 0 && strings.HasSuffix(strings.ToLower(path[len(path)-1]), "mode")
		return got, got == node.Value || mode && strings.HasPrefix(node.Value, "0")
	case nil:
		return "nothing", node.Tag == "!!null"
	default:
		return "another value", false // a merge has replaced it
	}
}

// repeated finds the keys that stand more than once in a mapping; only the last one counts.
func repeated(node *yaml.Node, found func(first, again *yaml.Node)) {
	if node.Kind == yaml.MappingNode {
		seen := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				continue
			}
			if first, again := seen[key.Value]; again {
				found(node.Content[first], key)
				continue
			}
			seen[key.Value] = i
		}
	}
	for _, child := range node.Content {
		repeated(child, found)
	}
}
