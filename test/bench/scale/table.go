package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// The providers in the plane, as its metrics name them.
const (
	core     = "cluster-api-controller-manager"
	provider = "infrastructure-slipway"
)

// figure is a row of the table, one value for each stage.
type figure struct {
	name string
	// target is for the stage of that index only; none when limit is 0.
	limit  float64
	at     int
	format string
	of     func(stage) float64
}

// The targets are those of the issue that asked for large pools: half of the time
// that upstream's in-memory provider took for a MachineDeployment of 1,000 on such
// a plane (354 s), and so on. They hold for the stage the issue names.
func figures(last int) []figure {
	perMachine := func(who string) func(stage) float64 {
		return func(s stage) float64 { return float64(s.used.total(who)) / float64(s.size) }
	}
	took := func(milestone string) func(stage) float64 {
		return func(s stage) float64 { return s.took[milestone].Seconds() }
	}
	return []figure{
		{"hosts enrolled", 0, 0, "%.0f s", func(s stage) float64 { return s.enrolled.Seconds() }},
		{"every machine has a host", 0, 0, "%.0f s", took(machineClaimed)},
		{"every machine provisioned: the provider's part", 60, 0, "%.0f s", took(machineProvisioned)},
		{"every Machine Running", 177, 0, "%.0f s", took(machineRunning)},
		{"CPU time of the plane for it", 0, 0, "%.0f s", func(s stage) float64 { return s.used.cpu.Seconds() }},
		{"API writes per machine", 0, 0, "%.1f", perMachine("")},
		{"– of Cluster API's core", 0, 0, "%.1f", perMachine(core)},
		{"– of the provider", 8, 0, "%.1f", perMachine(provider)},
		{"– of the agent", 0, 0, "%.1f", perMachine(agents)},
		{"plane at rest: CPU", 10, last, "%.1f %% of a core", func(s stage) float64 { return s.idle.planeCPU * 100 }},
		{"plane at rest: RSS", 0, 0, "%.0f MB", func(s stage) float64 { return float64(s.idle.planeRSS) / 1e6 }},
		{"a slipway-manager of its own at rest: CPU", 0, 0, "%.1f %% of a core", func(s stage) float64 { return s.idle.managerCPU * 100 }},
		{"a slipway-manager of its own at rest: RSS", 0, 0, "%.0f MB", func(s stage) float64 { return float64(s.idle.managerRSS) / 1e6 }},
	}
}

// printTable writes the table; the error names the figures that miss their target.
func printTable(out io.Writer, stages []stage) error {
	if len(stages) == 0 {
		return nil
	}
	fmt.Fprint(out, "| figure | target |")
	for _, s := range stages {
		fmt.Fprintf(out, " pool of %d, %d hosts in all |", s.size, s.fleet)
	}
	fmt.Fprint(out, "\n|---|---|")
	for range stages {
		fmt.Fprint(out, "---|")
	}
	fmt.Fprintln(out)
	var missed []string
	for _, f := range figures(len(stages) - 1) {
		target := ""
		if f.limit > 0 {
			target = "≤ " + fmt.Sprintf(f.format, f.limit)
		}
		fmt.Fprintf(out, "| %s | %s |", f.name, target)
		for i, s := range stages {
			value := f.of(s)
			fmt.Fprintf(out, " "+f.format+" |", value)
			if f.limit > 0 && i == f.at && value > f.limit {
				missed = append(missed, fmt.Sprintf("%s (%d hosts)", f.name, s.fleet))
			}
		}
		fmt.Fprintln(out)
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %v", missed)
	}
	return nil
}

// printWrites lists who wrote what for a pool, and what is written at rest.
func printWrites(out io.Writer, s stage) {
	fmt.Fprintf(out, "writes per machine of the pool of %d:\n", s.size)
	list(out, s.used, float64(s.size))
	fmt.Fprintln(out, "writes at rest, all in all:")
	list(out, s.idle.writes, 1)
}

func list(out io.Writer, r reading, per float64) {
	type row struct {
		who, request string
		n            int
	}
	var rows []row
	for who, requests := range r.writes {
		for request, n := range requests {
			rows = append(rows, row{who, request, n})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.who, b.who), b.n-a.n) })
	for _, row := range rows {
		fmt.Fprintf(out, "  %-38s %-40s %8.2f\n", row.who, row.request, float64(row.n)/per)
	}
}
