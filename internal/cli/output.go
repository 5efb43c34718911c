package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/display"
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
	table func(out *display.Page, wide bool) error
	// names of the objects, as <resource>.<group>/<name>.
	names []string
	// state is what --watch compares; nil for object. It leaves out what changes by itself.
	state any
	// noHeaders leaves out the first line of the table, and the headers of custom columns.
	noHeaders bool
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
	}
	page, err := r.page(out, format)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, page.String())
	return err
}

// page is a table, or what a template makes, for an output.
func (r result) page(out io.Writer, format string) (*display.Page, error) {
	page := display.NewPage(out)
	template, err := parseTemplate(format)
	if err != nil {
		return nil, err
	}
	if template != nil {
		fields, err := document(r.object)
		if err != nil {
			return nil, err
		}
		return page, template(page, fields, r.noHeaders)
	}
	if format == outputWide {
		page.Whole()
	}
	if format == outputName {
		for _, name := range r.names {
			fmt.Fprintln(page, name)
		}
		return page, nil
	}
	if err := r.table(page, format == outputWide); err != nil {
		return nil, err
	}
	if r.noHeaders {
		page.CutHeader()
	}
	return page, nil
}

// OutputFlag adds -o for what commands of a plane show: a text, JSON or YAML.
func OutputFlag(command *cobra.Command, value *string) {
	outputFlag(command, value, outputTable, outputJSON, outputYAML)
}

// Show writes an object in the format of OutputFlag, or the text for a person.
func Show(cmd *cobra.Command, format string, object any, text string) error {
	return result{object: object, table: func(out *display.Page, _ bool) error {
		_, err := out.Write([]byte(text))
		return err
	}}.write(cmd.OutOrStdout(), format)
}
