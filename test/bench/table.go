package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// figure is a row of the table.
type figure struct {
	name   string
	target float64
	unit   string
	of     func(sample) float64
}

func seconds(of func(sample) time.Duration) func(sample) float64 {
	return func(s sample) float64 { return of(s).Seconds() }
}

// The targets are those of the issue that asked for `make up`.
var figures = []figure{
	{"plane ready", 6, "s", seconds(func(s sample) time.Duration { return s.planeReady })},
	{"three Ready nodes", 60, "s", seconds(func(s sample) time.Duration { return s.threeNodes })},
	{"one more worker by scaling the pool", 15, "s", seconds(func(s sample) time.Duration { return s.oneMore })},
	{"plane RSS at rest, with the cluster", 500, "MB", func(s sample) float64 { return float64(s.rss) / 1e6 }},
	{"plane CPU at rest", 0, "% of a core", func(s sample) float64 { return s.idleCPU * 100 }},
	{"slipway down --purge", 5, "s", seconds(func(s sample) time.Duration { return s.down })},
}

// printTable writes the table; the error names the figures that miss their target.
func printTable(out io.Writer, samples []sample) error {
	fmt.Fprintf(out, "| figure | target | median of %d | least | most |\n|---|---|---|---|---|\n", len(samples))
	var missed []string
	for _, f := range figures {
		values := make([]float64, 0, len(samples))
		for _, s := range samples {
			values = append(values, f.of(s))
		}
		slices.Sort(values)
		median := values[len(values)/2]
		target := ""
		if f.target > 0 {
			target = fmt.Sprintf("≤ %g %s", f.target, f.unit)
			if median > f.target {
				missed = append(missed, f.name)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %.1f %s | %.1f | %.1f |\n", f.name, target, median, f.unit, values[0], values[len(values)-1])
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %v", missed)
	}
	return nil
}
