package providercheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/slipway-dev/slipway/internal/version"
)

// Result is the outcome of a check as JSON.
type Result struct {
	// Source is the directory, file or URL that was read.
	Source string `json:"source"`
	// Provider and Version name the release; both may be empty when Partial.
	Provider string `json:"provider"`
	Version  string `json:"version"`
	// Partial says that one file was checked, without the rules of a whole release.
	Partial bool `json:"partial,omitempty"`
	// Rules is how many rules were applied.
	Rules int `json:"rules"`
	// Errors, Warnings and Notes count the findings by level.
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Notes    int       `json:"notes"`
	Findings []Finding `json:"findings"`
}

// NewResult checks a release and keeps the findings that pass the filter.
func NewResult(r *Release, filter Filter) Result {
	result := Result{
		Source: r.Place, Provider: r.Label, Version: r.Version, Partial: r.Partial,
		Rules: len(applied(r)), Findings: filter.apply(Check(r)),
	}
	for _, f := range result.Findings {
		switch f.Level {
		case Must:
			result.Errors++
		case Should:
			result.Warnings++
		case May:
			result.Notes++
		}
	}
	if result.Findings == nil {
		result.Findings = []Finding{}
	}
	return result
}

// WriteText writes a finding in two lines, what is wrong and what to do, as
// compilers do, so that editors jump to it.
func (r Result) WriteText(w io.Writer) error {
	for _, f := range r.Findings {
		where := cmp.Or(f.File, r.Source)
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, f.Line)
		}
		object := ""
		if f.Object != "" {
			object = f.Object + ": "
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s%s [%s]\n    %s\n", where, f.Level, object, f.Message, f.Rule, f.Remedy); err != nil {
			return err
		}
	}
	what := strings.TrimSpace(r.Provider + " " + r.Version)
	if r.Partial {
		what = fmt.Sprintf("%s alone, without the %d rules of a whole release", r.Source, len(Rules)-r.Rules)
	}
	_, err := fmt.Fprintf(w, "%s: %d rules, errors: %d, warnings: %d, notes: %d\n", what, r.Rules, r.Errors, r.Warnings, r.Notes)
	return err
}

// Results are the outcomes for the releases of one place.
type Results []Result

// MarshalJSON writes a single result as an object, and several as the items of one.
func (r Results) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal(struct {
		Items []Result `json:"items"`
	}{r})
}

// WriteText writes one result after the other.
func (r Results) WriteText(w io.Writer) error {
	for _, result := range r {
		if err := result.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

// Fail says whether there is an error, or with strict a warning.
func (r Results) Fail(strict bool) bool {
	return slices.ContainsFunc(r, func(result Result) bool { return result.Errors > 0 || strict && result.Warnings > 0 })
}

// WriteSARIF writes SARIF 2.1.0, which code hosts show beside the lines of a change, with a
// run for each release.
func (r Results) WriteSARIF(w io.Writer) error {
	report := sarif.NewReport()
	for _, result := range r {
		report.AddRun(result.run())
	}
	return report.PrettyWrite(w)
}

func (r Result) run() *sarif.Run {
	run := sarif.NewRunWithInformationURI("slipway check provider", "https://github.com/slipway-dev/slipway")
	run.Tool.Driver.WithVersion(version.Version)
	// by which a code host tells the runs of one report apart
	run.WithAutomationDetails(sarif.NewRunAutomationDetails().WithID("slipway-check-provider/" + r.Provider + "/"))
	for _, rule := range Rules {
		run.AddRule(rule.ID).
			WithDescription(rule.Title).
			WithFullDescription(sarif.NewMultiformatMessageString().WithText(rule.Title + " (" + rule.Contract + ")")).
			WithHelp(sarif.NewMultiformatMessageString().WithText(rule.Remedy))
	}
	for _, f := range r.Findings {
		location := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(cmp.Or(f.File, ".")))
		if f.Line > 0 {
			location.WithRegion(sarif.NewSimpleRegion(f.Line, f.Line))
		}
		run.CreateResultForRule(f.Rule).
			WithLevel(string(f.Level)).
			WithMessage(sarif.NewTextMessage(f.Message + ". " + f.Remedy)).
			AddLocation(sarif.NewLocationWithPhysicalLocation(location))
	}
	return run
}
