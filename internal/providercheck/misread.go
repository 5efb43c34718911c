package providercheck

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plainText is a value that is the same text wherever it stands. What looks like a number or a truth value
// is compared with what clusterctl reads when the whole object is.
var plainText = regexp.MustCompile(`^[\w./][\w./-]*$`)

// misread is a value of a variable that YAML takes for something else.
type misread struct {
	use
	object *Object
	// written is what the file says at this place once the variable has its value, and read is what clusterctl
	// makes of it.
	written string
	read    any
}

// marker stands for a use of a variable in a text that is read once more.
var marker = regexp.MustCompile(`use-([0-9]+)-of-a-variable`)

// misread reads the file once more, with markers in place of the values that YAML could take for something
// else, and compares: where a marker is part of a text, its value has to be part of the same text.
func (f *File) misread(found func(misread)) {
	raw := unspaced(f.Raw)
	var marked []byte
	values, end := map[string]string{}, 0
	for i, u := range f.uses {
		// A line of its own may be more than one value, and blanks are how a template has nothing by default.
		if u.text == "" || u.function == "" || u.own || u.comment {
			continue
		}
		value, err := process([]byte(u.text), f.sample)
		if err != nil || plainText.Match(value) || strings.TrimSpace(string(value)) == "" || u.switchesOff(raw, value) {
			continue
		}
		mark := fmt.Sprintf("use-%d-of-a-variable", i)
		values[mark] = string(value)
		marked = append(append(marked, raw[end:u.begin]...), mark...)
		end = u.begin + len(u.text)
	}
	if len(values) == 0 {
		return
	}
	text, err := process(append(marked, raw[end:]...), f.sample)
	if err != nil {
		return // found by file-readable
	}
	objects, err := f.objects(context.Background(), text)
	if err != nil || len(objects) != len(f.Objects) {
		return // the values are more than texts
	}
	valued := func(s string) string {
		return marker.ReplaceAllStringFunc(s, func(m string) string { return values[m] })
	}
	for i, o := range objects {
		visit(o.Fields, nil, func(path []string, v any) {
			marked, isText := v.(string)
			match := marker.FindStringSubmatch(strings.Join(append(path, marked), " "))
			if !isText || match == nil {
				return
			}
			at := make([]string, len(path))
			for j, name := range path {
				at[j] = valued(name)
			}
			m := misread{object: f.Objects[i], written: valued(marked), read: valueAt(f.Objects[i].Fields, at)}
			if parent, node := o.nodes(path); !meant(m.written, m.read, parent, node) {
				n, _ := strconv.Atoi(match[1])
				m.use = f.uses[n]
				found(m)
			}
		})
	}
}

// switchesOff says that a value makes a comment of the line that it begins.
func (u use) switchesOff(raw, value []byte) bool {
	before := raw[bytes.LastIndexByte(raw[:u.begin], '\n')+1 : u.begin]
	return string(bytes.TrimSpace(value)) == "#" && len(bytes.TrimSpace(before)) == 0
}

// nodes are those of a path and of its parent; nil when the lines are not known.
func (o *Object) nodes(path []string) (parent, node *yaml.Node) {
	node = o.node
	for _, name := range path {
		if node != nil && node.Alias != nil {
			node = node.Alias
		}
		if parent = node; node == nil {
			return nil, nil
		}
		node = child(node, name)
	}
	return parent, node
}

// meant says whether what is read is the text that is written, or what a writer of YAML means by it: a list, a quoted
// text, a number.
func meant(written string, read any, parent, node *yaml.Node) bool {
	style := func(n *yaml.Node, s yaml.Style) bool { return n != nil && n.Style&s != 0 }
	if style(parent, yaml.FlowStyle) && strings.Contains(written, ",") {
		return true // several items
	}
	first := written[:min(1, len(written))]
	switch read := read.(type) {
	case string:
		switch {
		case style(node, yaml.DoubleQuotedStyle):
			return read == written || read == strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(written)
		case style(node, yaml.SingleQuotedStyle):
			return read == written || read == strings.ReplaceAll(written, `''`, `'`)
		}
		return read == written || strings.IndexAny(written, `"'`) == 0 && strings.HasSuffix(strings.TrimSpace(written), first)
	case []any, map[string]any:
		return strings.IndexAny(written, "[{") == 0
	case nil:
		return strings.EqualFold(written, "null")
	default: // another rule compares numbers and truth values
		return len(strings.Fields(written)) == 1 && first != "*"
	}
}
