package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// printTable writes the table, with upstream's provider in front when it was measured;
// the error names the figures that miss their target.
func printTable(out io.Writer, upstreams *stage, stages []stage) error {
	var titles []string
	columns := stages
	if upstreams != nil {
		titles = append(titles, fmt.Sprintf("upstream's in-memory provider, MachineDeployment of %d", upstreams.Size))
		columns = append([]stage{*upstreams}, stages...)
	}
	for _, s := range stages {
		titles = append(titles, fmt.Sprintf("pool of %d, %d hosts in all", s.Size, s.Fleet))
	}
	if len(columns) == 0 {
		return nil
	}
	fmt.Fprint(out, "| figure | target |")
	for _, title := range titles {
		fmt.Fprintf(out, " %s |", title)
	}
	fmt.Fprint(out, "\n|---|---|")
	for range titles {
		fmt.Fprint(out, "---|")
	}
	fmt.Fprintln(out)
	var missed []string
	for _, f := range figures(upstreams, len(stages)-1) {
		target := ""
		if f.limit > 0 {
			target = "≤ " + fmt.Sprintf(f.format, f.limit)
		}
		fmt.Fprintf(out, "| %s | %s |", f.name, target)
		for _, s := range columns {
			fmt.Fprintf(out, " %s |", f.text(s))
		}
		fmt.Fprintln(out)
		if f.missed(stages) {
			missed = append(missed, fmt.Sprintf("%s (%d hosts)", f.name, stages[f.at].Fleet))
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %v", missed)
	}
	return nil
}

func (f figure) text(s stage) string {
	value := f.of(s)
	if math.IsNaN(value) {
		return "–"
	}
	return fmt.Sprintf(f.format, value)
}

func (f figure) missed(stages []stage) bool {
	return f.limit > 0 && f.at >= 0 && f.at < len(stages) && f.of(stages[f.at]) > f.limit
}

// printWrites lists who wrote what for a pool, and what is written at rest.
func printWrites(out io.Writer, s stage) {
	fmt.Fprintf(out, "writes per machine, %d machines:\n", s.Size)
	list(out, s.Used, float64(s.Size))
	if s.idle != nil {
		fmt.Fprintln(out, "writes at rest, all in all:")
		list(out, s.idle.writes, 1)
	}
}

func list(out io.Writer, r reading, per float64) {
	type row struct {
		who, request string
		n            int
	}
	var rows []row
	for who, requests := range r.Writes {
		for request, n := range requests {
			rows = append(rows, row{who, request, n})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.who, b.who), b.n-a.n) })
	for _, row := range rows {
		fmt.Fprintf(out, "  %-38s %-40s %8.2f\n", row.who, row.request, float64(row.n)/per)
	}
}
