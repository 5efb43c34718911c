package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// Values of -o.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
	// outputSARIF is what code hosts show beside the lines of a change.
	outputSARIF = "sarif"
)

// listFormats are those of every command that lists objects.
var listFormats = []string{outputTable, outputWide, outputJSON, outputYAML, outputName}

// outputFlag adds -o with its completion; an unknown value is refused. The first of the
// allowed values is the default. What has JSON takes kubectl's templates, too.
func outputFlag(command *cobra.Command, value *string, allowed ...string) {
	usage := "output format: " + strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	templates := slices.Contains(allowed, outputJSON)
	if templates {
		usage += "; custom-columns=, go-template= or jsonpath= as in kubectl, or these with -file"
	}
	command.Flags().StringVarP(value, "output", "o", allowed[0], usage)
	completeFlag(command, "output", allowed)
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(allowed, *value) {
			return run(cmd, args)
		}
		if template, err := parseTemplate(*value); templates && (template != nil || err != nil) {
			if err != nil {
				return err
			}
			return run(cmd, args)
		}
		return fmt.Errorf("--output %q: want %s", *value, strings.Join(allowed, " or "))
	}
}

// result is what a command shows, in each of the formats that it has.
type result struct {
	// object is written as JSON or YAML; its fields are an API.
	object any
	// table writes it for a person; wide has more columns.
	table func(out io.Writer, wide bool) error
	// names of the objects, as <resource>.<group>/<name>.
	names []string
	// noHeaders leaves out the first line of the table, and the headers of custom columns.
	noHeaders bool
}

// escapes keeps what clusters and machines report from steering the terminal.
var escapes = newTerminalEscapes()

// terminalEscapes writes every control character but tab and newline visibly: those of C0 and C1,
// of which terminals take U+009B for the beginning of a sequence, those that change the direction of
// text or begin a line, and bytes that are not UTF-8.
type terminalEscapes struct{ visible *strings.Replacer }

func newTerminalEscapes() terminalEscapes {
	pairs := []string{"\x1b", "^[", "\r", `\r`}
	for r := rune(0); r <= 0x2069; r++ {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) && !strings.ContainsRune("\t\n\r\x1b", r) {
			pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
		}
	}
	return terminalEscapes{strings.NewReplacer(pairs...)}
}

// WriteString writes s with escapes.
func (e terminalEscapes) WriteString(out io.Writer, s string) (int, error) {
	return e.visible.WriteString(out, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

func (r result) write(out io.Writer, format string) error {
	switch format {
	case outputJSON:
		return json.NewEncoder(out).Encode(r.object)
	case outputYAML:
		data, err := yaml.Marshal(r.object)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	case outputName:
		for _, name := range r.names {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := r.text(format)
	if err != nil {
		return err
	}
	_, err = escapes.WriteString(out, text)
	return err
}

// text is a table, or what a template makes.
func (r result) text(format string) (string, error) {
	var text strings.Builder
	template, err := parseTemplate(format)
	if err != nil {
		return "", err
	}
	if template != nil {
		fields, err := document(r.object)
		if err != nil {
			return "", err
		}
		err = template(&text, fields, r.noHeaders)
		return text.String(), err
	}
	err = r.table(&text, format == outputWide)
	if r.noHeaders {
		_, rows, _ := strings.Cut(text.String(), "\n")
		return rows, err
	}
	return text.String(), err
}

// onTerminal says whether what is written can be drawn over.
func onTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
