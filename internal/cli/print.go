package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/text"
)

// templateFormats are kubectl's values of -o with something behind "=". Each has a second one that ends in
// "-file" and reads that from a file.
var templateFormats = []string{"custom-columns", "go-template", "jsonpath"}

// templatePrinter writes the document of a result, or of a list the rows in its "items".
type templatePrinter func(out io.Writer, document map[string]any, noHeaders bool) error

// parseTemplate returns the printer of a value of -o such as jsonpath={.items[*].name}; nil when
// the value is none of them.
func parseTemplate(format string) (templatePrinter, error) {
	kind, text, given := strings.Cut(format, "=")
	kind, fromFile := strings.CutSuffix(kind, "-file")
	if !slices.Contains(templateFormats, kind) {
		return nil, nil
	}
	if !given || text == "" {
		return nil, fmt.Errorf("--output %s: want something behind it, as in %[1]s=…", format)
	}
	if fromFile {
		data, err := os.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("--output %s-file: %w", kind, err)
		}
		text = string(data)
	}
	var show templatePrinter
	var err error
	switch kind {
	case "custom-columns":
		show, err = customColumns(text, fromFile)
	case "go-template":
		var p *printers.GoTemplatePrinter
		if p, err = printers.NewGoTemplatePrinter([]byte(text)); err == nil {
			p.AllowMissingKeys(true)
			show = objectPrinter(p)
		}
	case "jsonpath":
		var p *printers.JSONPathPrinter
		if p, err = printers.NewJSONPathPrinter(text); err == nil {
			p.AllowMissingKeys(true)
			show = objectPrinter(p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--output %s: %w", kind, err)
	}
	return show, nil
}

// objectPrinter keeps what a printer writes for an error out of the output.
func objectPrinter(p printers.ResourcePrinter) templatePrinter {
	return func(out io.Writer, document map[string]any, _ bool) error {
		var text strings.Builder
		if err := p.PrintObj(&unstructured.Unstructured{Object: document}, &text); err != nil {
			return err
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
}

// fieldPath is a path into a row: .name, name and {.name} are the same.
type fieldPath struct{ *printers.JSONPathPrinter }

func parseFieldPath(path string) (fieldPath, error) {
	inner := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
	if inner == "" || strings.ContainsAny(inner, "{}") {
		return fieldPath{}, fmt.Errorf("%q is no path of a field, such as .name", path)
	}
	p, err := printers.NewJSONPathPrinter("{." + inner + "}")
	if err != nil {
		return fieldPath{}, fmt.Errorf("%q: %w", path, err)
	}
	p.AllowMissingKeys(true)
	return fieldPath{p}, nil
}

// values that a row has there; none when it has no such field.
func (p fieldPath) values(row any) ([]any, error) {
	found, err := p.FindResults(row)
	var values []any
	for _, results := range found {
		for _, v := range results {
			if v.IsValid() && v.CanInterface() && v.Interface() != nil {
				values = append(values, v.Interface())
			}
		}
	}
	return values, err
}

// customColumns prints a row for each item of a list, or one of a document that is none. A file has the
// headers in its first line and the paths in its second.
func customColumns(spec string, fromFile bool) (templatePrinter, error) {
	var headers []string
	var paths []fieldPath
	add := func(header, path string) error {
		p, err := parseFieldPath(path)
		headers, paths = append(headers, header), append(paths, p)
		return err
	}
	if fromFile {
		first, second, _ := strings.Cut(strings.TrimSpace(spec), "\n")
		named, fields := strings.Fields(first), strings.Fields(second)
		if len(named) == 0 || len(named) != len(fields) {
			return nil, fmt.Errorf("%d headers in the first line and %d paths in the second: want as many", len(named), len(fields))
		}
		for i := range named {
			if err := add(named[i], fields[i]); err != nil {
				return nil, err
			}
		}
	} else {
		for column := range strings.SplitSeq(spec, ",") {
			header, path, ok := strings.Cut(column, ":")
			if !ok {
				return nil, fmt.Errorf("%q: want HEADER:PATH,…, as in NAME:.name", column)
			}
			if err := add(header, path); err != nil {
				return nil, err
			}
		}
	}
	return func(out io.Writer, document map[string]any, noHeaders bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
		if !noHeaders {
			fmt.Fprintln(w, strings.Join(headers, "\t"))
		}
		rows, ok := document["items"].([]any)
		if !ok {
			rows = []any{document}
		}
		for _, row := range rows {
			cells := make([]string, len(paths))
			for i, path := range paths {
				values, err := path.values(row)
				if err != nil {
					return err
				}
				texts := make([]string, len(values))
				for j, v := range values {
					texts[j] = text.OneLine(fmt.Sprint(v))
				}
				cells[i] = cmp.Or(strings.Join(texts, ","), "<none>")
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		return w.Flush()
	}, nil
}

// document is what -o json writes, as templates take it: that of a list is below "items", as in kubectl.
func document(object any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte("{")) {
		var fields map[string]any
		return fields, utiljson.Unmarshal(data, &fields)
	}
	var rows []any
	err = utiljson.Unmarshal(data, &rows)
	return map[string]any{"items": rows}, err
}

// listFlags are what shows a list in one table, in kubectl's words.
type listFlags struct {
	watchFlag
	output, sortBy string
	noHeaders      bool
}

func (f *listFlags) bind(command *cobra.Command) {
	command.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave out the headers of tables and custom columns")
	f.watchFlag.bind(command)
	command.Flags().StringVar(&f.sortBy, "sort-by", "", "order by a field of -o json, such as .name")
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if f.sortBy != "" {
			if _, err := parseFieldPath(f.sortBy); err != nil {
				return fmt.Errorf("--sort-by: %w", err)
			}
		}
		return run(cmd, args)
	}
	outputFlag(command, &f.output, listFormats...)
}

// showList writes what gather lists, as the flags say.
func showList[T any](cmd *cobra.Command, f listFlags, gather func(context.Context) (list[T], error)) error {
	return f.show(cmd, f.output, func(ctx context.Context) (result, error) {
		found, err := gather(ctx)
		if err != nil {
			return result{}, err
		}
		return found.shown(cmd, f)
	})
}

// list is what a command lists.
type list[T any] struct {
	rows []T
	// empty is what a person reads instead of a table without rows, such as "No hosts in namespace a".
	empty string
	// name of a row, as <resource>.<group>/<name>.
	name func(*T) string
	// table writes the rows below one line of headers.
	table func(out *display.Page, rows []T, wide bool) error
}

func (l list[T]) result() result {
	shown := result{object: l.rows, table: func(out *display.Page, wide bool) error { return l.table(out, l.rows, wide) }}
	for i := range l.rows {
		shown.names = append(shown.names, l.name(&l.rows[i]))
	}
	return shown
}

// shown is the list as the flags say.
func (l list[T]) shown(cmd *cobra.Command, f listFlags) (result, error) {
	if f.sortBy != "" {
		var err error
		if l.rows, err = sortedBy(l.rows, f.sortBy); err != nil {
			return result{}, fmt.Errorf("--sort-by: %w", err)
		}
	}
	shown := l.result()
	shown.noHeaders = f.noHeaders
	if len(l.rows) == 0 && l.empty != "" {
		shown.noHeaders = false
		shown.table = func(page *display.Page, _ bool) error {
			if f.watch {
				_, err := fmt.Fprintln(page, l.empty+".")
				return err
			}
			return display.WriteVisible(cmd.ErrOrStderr(), l.empty+".\n")
		}
	}
	return shown, nil
}

// sortedBy returns rows in the order of a field: numbers by their value, all else as text. Rows
// without the field come first.
func sortedBy[T any](rows []T, field string) ([]T, error) {
	path, err := parseFieldPath(field)
	if err != nil {
		return nil, err
	}
	of, err := document(rows)
	if err != nil {
		return nil, err
	}
	type keyed struct {
		row T
		key []any
	}
	keys, known := make([]keyed, len(rows)), len(rows) == 0
	for i, row := range rows {
		values, err := path.values(of["items"].([]any)[i])
		if err != nil {
			return nil, err
		}
		keys[i], known = keyed{row, values}, known || len(values) > 0
	}
	if !known {
		return nil, fmt.Errorf("no row has the field %s; -o json shows those there are", field)
	}
	slices.SortStableFunc(keys, func(a, b keyed) int {
		if len(a.key) == 0 || len(b.key) == 0 {
			return cmp.Compare(min(len(a.key), 1), min(len(b.key), 1))
		}
		return compareValues(a.key[0], b.key[0])
	})
	sorted := make([]T, len(rows))
	for i := range keys {
		sorted[i] = keys[i].row
	}
	return sorted, nil
}

func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case float64:
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b)
		}
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
