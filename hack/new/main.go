package main

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed files.tmpl
var files string

const api = "api/lifecycle/v1alpha1/step_types.go"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || args[0] != "check" && args[0] != "step-kind" || args[1] == "" {
		return fmt.Errorf("usage: new check|step-kind NAME")
	}
	name := args[1]
	lower, upper := strings.ToLower(name[:1])+name[1:], strings.ToUpper(name[:1])+name[1:]
	names := map[string]string{"Lower": lower, "Upper": upper}
	if args[0] == "check" {
		file := "internal/doctor/" + strings.ToLower(name)
		return write(names, map[string]string{"check": file + ".go", "check-test": file + "_test.go"})
	}
	file := "internal/lifecycle/step/" + strings.ToLower(name)
	if err := write(names, map[string]string{"kind": file + ".go", "kind-test": file + "_test.go"}); err != nil {
		return err
	}
	return replace(api,
		`\)(\]\.filter\(x, x\))`, "), has(self."+lower+")$1",
		` and (\w+) must be set"`, ", $1 and "+lower+` must be set"`,
		`\t// timeoutSeconds is how long the step`, fmt.Sprintf("\t// %s says what the step does.\n\t// +optional\n\t%s *%sStep `json:\"%s,omitempty\"`\n\n$0", lower, upper, upper, lower),
		`// ExpressionStep is a gate`, fmt.Sprintf("// %sStep says what the step does.\ntype %sStep struct {\n\t// message is shown while the step waits.\n\t// +optional\n\t// +kubebuilder:validation:MinLength=1\n\t// +kubebuilder:validation:MaxLength=512\n\tMessage string `json:\"message,omitempty\"`\n}\n\n$0", upper, upper))
}

// write makes files from templates by name.
func write(names, made map[string]string) error {
	all := template.Must(template.New("").Parse(files))
	for part, file := range made {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if err := all.ExecuteTemplate(f, part, names); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// replace changes a file: pairs are a pattern, which is there once, and what comes in its place.
func replace(file string, pairs ...string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for pair := range slices.Chunk(pairs, 2) {
		pattern := regexp.MustCompile(pair[0])
		if len(pattern.FindAllIndex(text, -1)) != 1 {
			return fmt.Errorf("%s does not have %q once: add the kind by hand", file, pair[0])
		}
		text = pattern.ReplaceAll(text, []byte(pair[1]))
	}
	return os.WriteFile(file, text, 0o644)
}
