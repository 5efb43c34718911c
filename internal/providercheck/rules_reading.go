package providercheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reads is where the rules of this file stand: what clusterctl makes of a file without a word.
const reads = "clusterctl provider contract, 7.1 and 7.2"

// readingRules are about what clusterctl drops, empties or changes while it reads a file.
var readingRules = []Rule{
	{
		ID: "object-identity", Level: Must, Contract: "Kubernetes, objects",
		Title:  "Every document is one object with apiVersion, kind and name, and labels and annotations that are strings",
		Remedy: "add the field, or put quotes around the value: YAML 1.1, which clusterctl reads, reads y, no and on as truth values; split a List into documents",
		check: func(r *Release, found report) {
			for _, o := range objects(r.readFiles()) {
				checkIdentity(o, slices.Contains(r.Components, o.File), found)
			}
		},
	},
	{
		ID: "object-served", Level: Must, Contract: "Kubernetes, API deprecation",
		Title:  "Kubernetes serves the version of each object of its own groups",
		Remedy: "write the object in a version that Kubernetes serves; kubectl api-resources lists them",
		check: func(r *Release, found report) {
			for _, o := range objects(r.readFiles()) {
				if o.unserved() {
					found(o.at("apiVersion"), fmt.Sprintf("%s is no version in which Kubernetes serves a %s", text(o.Fields, "apiVersion"), o.Kind()))
				}
			}
		},
	},
	{
		ID: "yaml-dropped", Level: Must, Contract: reads,
		Title:  "Everything in a file is read",
		Remedy: "put --- in a line of its own between two objects: clusterctl reads one of each document",
		check: func(r *Release, found report) {
			for _, o := range objects(r.readFiles()) {
				if o.dropped > 0 {
					found(place{file: o.File.Name, line: o.dropped, object: o.at().object}, "the document holds more than the one object that clusterctl reads")
				}
			}
		},
	},
	{
		ID: "yaml-repeated", Level: Should, Contract: reads,
		Title:  "No field stands twice in an object",
		Remedy: "remove one of the two: clusterctl takes the last one, and other tools refuse the file",
		check: func(r *Release, found report) {
			for _, o := range objects(slices.Concat(r.readFiles(), r.Metadata)) {
				eachRepeated(o, found)
			}
		},
	},
	{
		ID: "yaml-value", Level: Should, Contract: reads,
		Title:  "Values and names of fields are read as they are written",
		Remedy: "put quotes around a text, and write a number or a truth value as clusterctl reads it",
		check: func(r *Release, found report) {
			for _, o := range objects(slices.Concat(r.readFiles(), r.Metadata)) {
				o.changes(func(c change) {
					at := place{file: o.File.Name, line: c.line, object: o.at().object}
					found(at, fmt.Sprintf("%s: clusterctl reads %s as %s", strings.Join(c.path, "."), shortened(c.written), shortened(c.read)))
				})
			}
		},
	},
	{
		ID: "variable-text", Level: Should, Contract: reads,
		Title:  "The value of a variable is read as the text that it is",
		Remedy: "put quotes around the variable: its value becomes a part of the file before that is read, so that # begins a comment and a colon a field",
		check: func(r *Release, found report) {
			for _, f := range r.readFiles() {
				f.misread(func(m misread) {
					at := place{file: f.Name, line: m.line, object: m.object.at().object}
					found(at, fmt.Sprintf("%s: clusterctl reads %q as %s", shortened(m.text), shortened(m.written), spoken(m.read)))
				})
			}
		},
	},
	{
		ID: "variable-empty", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "A variable that clusterctl does not demand has a default wherever it is used",
		Remedy: "write the default at each place: it counts where it stands, and the variable in a default is one that clusterctl does not list",
		check: func(r *Release, found report) {
			eachUse(r, func(f *File, u use) {
				// A line that is nothing else may be there or not.
				if u.text == "" || u.own || u.isSwitch() || f.Variables[u.name] == nil {
					return
				}
				switch value, err := f.unset(u.text); {
				case err != nil:
					found(place{file: f.Name, line: u.line}, fmt.Sprintf("%s cannot be replaced: %v", shortened(u.text), err))
				case value == "":
					found(place{file: f.Name, line: u.line}, shortened(u.text)+" is empty, and clusterctl demands no value")
				}
			})
		},
	},
	{
		ID: "variable-default", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "A default of a variable has an effect, and is the same everywhere",
		Remedy: "give the first use of the variable in the file the default, which must not be empty, and all others the same",
		check:  checkDefaults,
	},
	{
		ID: "variable-function", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "Functions of variables mean what they mean in a shell",
		Remedy: "use := for a default; clusterctl's library has no other condition, and no patterns in a replacement",
		check: func(r *Release, found report) {
			eachUse(r, func(f *File, u use) {
				if why := misunderstood(u); why != "" {
					found(place{file: f.Name, line: u.line}, fmt.Sprintf("${%s%s…}: %s", u.name, u.function, why))
				}
			})
		},
	},
	{
		ID: "variable-case", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "Variables are written in capitals",
		Remedy: "write ${NAME}, or $${name} if a shell on the machine is meant: clusterctl takes no environment variable that is not in capitals",
		check: func(r *Release, found report) {
			for _, f := range r.readFiles() {
				for name, value := range f.Variables {
					does := "demands the variable"
					if value != nil {
						does = "takes the environment variable " + strings.ToUpper(name) + " for"
					}
					if strings.ToUpper(name) != name {
						found(place{file: f.Name, line: f.lineOf(name)}, fmt.Sprintf("clusterctl %s %s", does, name))
					}
				}
			}
		},
	},
	{
		ID: "variable-comment", Level: May, Contract: "clusterctl provider contract, 3.4",
		Title:  "Every variable is used by something other than a comment",
		Remedy: "write $${NAME} in the comment: clusterctl demands the variable",
		check: func(r *Release, found report) {
			for _, f := range r.readFiles() {
				outside := map[string]bool{}
				for _, u := range f.uses {
					outside[u.name] = outside[u.name] || !u.comment
				}
				for name, value := range f.Variables {
					if value == nil && !outside[name] {
						found(place{file: f.Name, line: f.lineOf(name)}, fmt.Sprintf("clusterctl demands ${%s}, which is in a comment", name))
					}
				}
			}
		},
	},
	{
		ID: "variable-dollar", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "Two dollars stay two dollars",
		Remedy: "write $$$$ for two, and a single $ for one: only ${ has to be written as $${",
		check: func(r *Release, found report) {
			for _, f := range r.readFiles() {
				for _, line := range f.dollars {
					if o := f.objectAt(line); o != nil && o.Kind() == "CustomResourceDefinition" {
						continue // a description
					}
					found(place{file: f.Name, line: line}, "clusterctl makes $ of $$")
				}
			}
		},
	},
}

// readFiles are the files of which clusterctl replaces the variables.
func (r *Release) readFiles() []*File { return slices.Concat(r.Components, r.Templates, r.Classes) }

func eachUse(r *Release, f func(*File, use)) {
	for _, file := range r.readFiles() {
		for _, u := range file.uses {
			f(file, u)
		}
	}
}

func eachRepeated(o *Object, found report) {
	if o.node == nil || o.dropped > 0 {
		return
	}
	repeated(o.node, func(first, again *yaml.Node) {
		found(place{file: o.File.Name, line: again.Line, object: o.at().object}, fmt.Sprintf("%s stands in line %d, too", again.Value, first.Line))
	})
}

// unserved says whether an object is of a group of Kubernetes, and of no kind that is served in its version.
func (o *Object) unserved() bool {
	gv, err := schema.ParseGroupVersion(text(o.Fields, "apiVersion"))
	if err != nil || gv.Version == "" || o.Kind() == "" || strings.HasSuffix(o.Kind(), "List") {
		return false // another rule tells of that
	}
	// Only Kubernetes has groups without a dot, such as the former extensions.
	own := kubernetes().groups[gv.Group] || !strings.Contains(gv.Group, ".")
	return own && !kubernetes().versions[gv.String()+" "+o.Kind()]
}

func checkIdentity(o *Object, component bool, found report) {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		isList := strings.HasSuffix(o.Kind(), "List") && get(o.Fields, "items") != nil
		switch value, isText := get(o.Fields, path...).(string); {
		case isList && component && path[0] == "kind":
			found(o.at("kind"), "clusterctl reads a List as one object, and the API server knows no such kind")
		case isList && path[0] != "apiVersion": // kubectl knows it
		case !isText:
			found(o.at(path...), strings.Join(path, ".")+" is missing, or is no string")
		case value == "":
			found(o.at(path...), strings.Join(path, ".")+" is empty")
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		values, _ := get(o.Fields, "metadata", field).(map[string]any)
		for name, value := range values {
			if _, isText := value.(string); !isText {
				found(o.at("metadata", field, name), fmt.Sprintf("%s %s is no string", strings.TrimSuffix(field, "s"), name))
			}
		}
	}
}

// defaults are the functions that give a variable a value.
var defaults = []string{"=", ":=", ":-"}

func checkDefaults(r *Release, found report) {
	for _, f := range r.readFiles() {
		first := map[string]use{}
		for _, u := range f.uses {
			if !slices.Contains(defaults, u.function) || u.text == "" {
				continue
			}
			at := place{file: f.Name, line: u.line}
			switch seen, again := first[u.name]; {
			case f.Variables[u.name] == nil && len(u.args) == 0:
				found(at, fmt.Sprintf("an empty default is none: clusterctl demands %s", u.name))
			case f.Variables[u.name] == nil:
				found(at, fmt.Sprintf("clusterctl demands %s all the same: it has no default in line %d, where it stands first", u.name, f.lineOf(u.name)))
			case again && !slices.Equal(seen.args, u.args):
				found(at, fmt.Sprintf("%s has another default in line %d", u.name, seen.line))
			case !again:
				first[u.name] = u
			}
		}
	}
}

// misunderstood says what a function does that a shell does not; "" when they agree.
func misunderstood(u use) string {
	arg := ""
	if len(u.args) > 0 {
		arg = u.args[0]
	}
	switch u.function {
	case ":+":
		return "the text is used when the variable is not set, and not when it is"
	case ":?":
		return "the message becomes the value, and nothing stops"
	case ":":
		if _, err := strconv.Atoi(arg); err != nil {
			return "the position is no number, so that the whole value is used"
		}
	case "/", "//", "/#", "/%":
		if strings.ContainsAny(arg, "*?[") {
			return "the pattern is taken literally"
		}
	}
	return ""
}

// spoken is a value that was read, for a message.
func spoken(read any) string {
	switch read := read.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(shortened(read))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprint(read)
	}
}

// shortened is a text for a message.
func shortened(text string) string {
	const most = 60
	if text, _, _ = strings.Cut(text, "\n"); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// objectAt is the object that a line belongs to, or nil.
func (f *File) objectAt(line int) *Object {
	i, found := slices.BinarySearchFunc(f.Objects, line, func(o *Object, line int) int { return cmp.Compare(o.Line, line) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return f.Objects[i]
}
