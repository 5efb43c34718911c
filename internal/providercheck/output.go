package providercheck

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/slipway-dev/slipway/internal/version"
)

// Result is the outcome of a check as JSON.
type Result struct {
	// Directory, Provider and Version name the release.
	Directory string `json:"directory"`
	Provider  string `json:"provider"`
	Version   string `json:"version"`
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
	result := Result{Directory: r.Dir, Provider: r.Label, Version: r.Version, Rules: len(Rules), Findings: filter.apply(Check(r))}
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
		where := cmp.Or(f.File, r.Directory)
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
	_, err := fmt.Fprintf(w, "%s %s: %d rules, %d errors, %d warnings, %d notes\n", r.Provider, r.Version, r.Rules, r.Errors, r.Warnings, r.Notes)
	return err
}

// WriteJSON writes the result as one JSON document.
func (r Result) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteSARIF writes SARIF 2.1.0, which code hosts show beside the lines of a change.
func (r Result) WriteSARIF(w io.Writer) error {
	run := sarif.NewRunWithInformationURI("slipway check provider", "https://github.com/slipway-dev/slipway")
	run.Tool.Driver.WithVersion(version.Version)
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
	report := sarif.NewReport()
	report.AddRun(run)
	return report.PrettyWrite(w)
}
