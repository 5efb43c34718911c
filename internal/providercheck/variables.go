package providercheck

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/drone/envsubst/v2"
	"github.com/drone/envsubst/v2/parse"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

// use is one place of a file where a variable is used.
type use struct {
	// name of the variable, and function behind it: ":=" in ${FOO:=1}, "" in ${FOO}.
	name, function string
	// args of the function, as far as they are text.
	args []string
	// text is the whole expression; empty when it is an argument of another one.
	text string
	// begin is where it begins in the text without spaces.
	begin, line int
	// own says that the line holds nothing else, and comment that it is a comment.
	own, comment bool
	// joined says that a word ends where the variable begins.
	joined bool
}

// isSwitch reports whether a use takes a text away at the end of a word: what is left when the
// variable is not set is meant. ${FOO/on/} at the end of debug${FOO/on/} is one.
func (u use) isSwitch() bool {
	return u.joined && strings.HasPrefix(u.function, "/") && strings.HasSuffix(u.text, "/}")
}

// spacedName is ${ VAR }, which clusterctl reads as ${VAR} before it parses a file.
var spacedName = regexp.MustCompile(`\$\{(\s+[A-Za-z0-9_$]+\s*|[A-Za-z0-9_$]+\s+)\}`)

// unspaced removes those spaces and keeps the lines.
func unspaced(raw []byte) []byte {
	return spacedName.ReplaceAllFunc(raw, func(match []byte) []byte {
		lines := bytes.Count(match, []byte("\n"))
		return append(bytes.Join(bytes.Fields(match), nil), bytes.Repeat([]byte("\n"), lines)...)
	})
}

// ownLine is a line that has nothing but a variable.
var ownLine = regexp.MustCompile(`^\s*\$\{[^{}]*\}\s*$`)

// scan returns the uses of variables in their order, and the lines where two or three dollars
// lose one. The parser of clusterctl has no positions.
func scan(raw []byte) (uses []use, dollars []int) {
	number, begin := 1, 0
	var open []int // uses without their closing brace
	for line := range bytes.SplitAfterSeq(raw, []byte("\n")) {
		comment := bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#"))
		own := ownLine.Match(line)
		for i := 0; i < len(line); i++ {
			if line[i] == '}' && len(open) > 0 {
				last := open[len(open)-1]
				if open = open[:len(open)-1]; len(open) == 0 {
					uses[last].text = string(raw[uses[last].begin : begin+i+1])
				}
			}
			if line[i] != '$' {
				continue
			}
			run := i
			for run < len(line) && line[run] == '$' {
				run++
			}
			braced := run < len(line) && line[run] == '{'
			switch {
			// Outside of a variable, each pair of dollars stands for one.
			case braced && (len(open) > 0 || (run-i)%2 == 1):
				open = append(open, len(uses))
				joined := i > 0 && (unicode.IsLetter(rune(line[i-1])) || unicode.IsDigit(rune(line[i-1])))
				uses = append(uses, use{begin: begin + run - 1, line: number, own: own, comment: comment, joined: joined})
			case !braced && len(open) == 0 && (run-i == 2 || run-i == 3):
				dollars = append(dollars, number)
			}
			i = run - 1
		}
		number++
		begin += len(line)
	}
	return uses, dollars
}

// describe gives each use its name and function, from the tree that clusterctl itself makes.
func describe(node parse.Node, uses []use) (rest []use) {
	switch node := node.(type) {
	case *parse.ListNode:
		for _, n := range node.Nodes {
			uses = describe(n, uses)
		}
	case *parse.FuncNode:
		if len(uses) == 0 {
			return nil
		}
		u := &uses[0]
		u.name, u.function = node.Param, node.Name
		uses = uses[1:]
		for _, arg := range node.Args {
			if text, ok := arg.(*parse.TextNode); ok {
				u.args = append(u.args, text.Value)
			}
			uses = describe(arg, uses)
		}
	}
	return uses
}

// variables reads what the file says of variables, as clusterctl does.
func (f *File) variables() error {
	text := unspaced(f.Raw)
	uses, dollars := scan(text)
	tree, err := parse.Parse(string(text))
	if err != nil {
		return lineError{line: culprit(uses), err: fmt.Errorf("variables: %w", err)}
	}
	rest := describe(tree.Root, uses)
	f.uses, f.dollars = uses[:len(uses)-len(rest)], dollars
	if f.Variables, err = yamlprocessor.NewSimpleProcessor().GetVariableMap(f.Raw); err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	f.first, f.inText = map[string]int{}, map[string]bool{}
	for _, u := range f.uses {
		if f.first[u.name] == 0 {
			f.first[u.name] = u.line
		}
		f.inText[u.name] = f.inText[u.name] || !u.own
	}
	return nil
}

// lineError is an error of a line of a file.
type lineError struct {
	line int
	err  error
}

func (e lineError) Error() string { return e.err.Error() }
func (e lineError) Unwrap() error { return e.err }

// culprit is the line of the first variable that cannot be parsed, or 0.
func culprit(uses []use) int {
	for _, u := range uses {
		if u.text == "" {
			continue
		}
		if _, err := parse.Parse(u.text); err != nil {
			return u.line
		}
	}
	// One without its closing brace swallows the rest.
	for _, u := range uses {
		if u.text == "" {
			return u.line
		}
	}
	return 0
}

// errDefault makes the processor take the default of a variable.
var errDefault = errors.New("the default is taken")

// process replaces the variables as clusterctl does.
func process(raw []byte, value func(variable string) (string, error)) (text []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // ${FOO:0:-1} makes the library panic
			err = fmt.Errorf("variables: clusterctl panics: %v", r)
		}
	}()
	if text, err = yamlprocessor.NewSimpleProcessor().Process(raw, value); err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	return text, nil
}

// sampleNamespace stands for ${NAMESPACE}.
const sampleNamespace = "target-namespace"

// samplePrefix is that of the value of a variable that only a user can give. What is compared with
// it is not in the file, and nobody's fault.
const samplePrefix = "value-of-"

func chosen(value string) bool { return strings.Contains(value, samplePrefix) }

// sample gives variables without a default a value that fits where they stand.
func (f *File) sample(name string) (string, error) {
	if f.Variables[name] != nil {
		return "", errDefault
	}
	switch name {
	case "CLUSTER_NAME":
		return "cluster", nil
	case "NAMESPACE":
		return sampleNamespace, nil
	case "KUBERNETES_VERSION":
		return "v1.36.0", nil
	}
	if _, demanded := f.Variables[name]; !demanded || !f.inText[name] {
		// An argument of another variable, which nobody demands; or a part of the document.
		return "", nil
	}
	return samplePrefix + strings.ToLower(strings.ReplaceAll(name, "_", "-")), nil
}

// unset is what an expression becomes when the user sets nothing but what clusterctl demands.
func (f *File) unset(expression string) (value string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return envsubst.Eval(expression, func(name string) string {
		if value, demanded := f.Variables[name]; demanded && value == nil {
			return samplePrefix
		}
		return ""
	})
}

// lineOf is the line in which a variable is used first.
func (f *File) lineOf(variable string) int { return f.first[variable] }
