package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Formats of Write.
const (
	FormatTable = "table"
	FormatJSON  = "json"
)

// Write prints the report.
func (r Report) Write(w io.Writer, format string) error {
	switch format {
	case FormatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case FormatTable:
		return r.writeTable(w)
	}
	return fmt.Errorf("-o %q: want %s or %s", format, FormatTable, FormatJSON)
}

// writeTable puts the remedies below the table, numbered: commands are long, and
// meant to be copied.
func (r Report) writeTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var remedies strings.Builder
	n := 0
	_, _ = fmt.Fprintln(table, "LEVEL\tCHECK\tFINDING")
	for _, f := range r.Findings {
		mark := ""
		if f.Remedy != "" {
			n++
			mark = fmt.Sprintf(" [%d]", n)
			fmt.Fprintf(&remedies, "[%d] %s\n    %s\n", n, f.Check, f.Remedy)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s%s\n", f.Level, f.Check, f.Message, mark)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if n > 0 {
		if _, err := fmt.Fprintf(w, "\nWhat to do:\n%s", remedies.String()); err != nil {
			return err
		}
	}
	verdict := "The host can be enrolled."
	if r.Errors > 0 {
		verdict = "The host cannot become a node like this."
	}
	_, err := fmt.Fprintf(w, "\n%s Errors: %d, warnings: %d.\n", verdict, r.Errors, r.Warnings)
	return err
}
