package providercheck

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says how much a rule binds.
type Level string

const (
	// Must marks a rule without which clusterctl, the API server or Cluster API fails.
	Must Level = "error"
	// Should marks what a contract recommends, and values that users do not expect.
	Should Level = "warning"
	// May marks what a contract leaves open, and what users are better off with.
	May Level = "note"
)

// Finding is one place where a rule is broken.
type Finding struct {
	// Rule is the ID of the rule.
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// File is relative to the release directory; empty when the directory itself is
	// meant.
	File string `json:"file,omitempty"`
	// Line in File, from 1; 0 when none is meant.
	Line int `json:"line,omitempty"`
	// Object is the kind and name of the object, when one is meant.
	Object string `json:"object,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
	// Contract is where the rule stands.
	Contract string `json:"contract"`
}

// levels, the ones that bind least first.
var levels = []Level{May, Should, Must}

// Filter chooses findings. The zero value passes all.
type Filter struct {
	least int
	rules []string
}

// NewFilter passes findings of a level or above, of the given rules, or of all when there
// are none.
func NewFilter(least string, rules []string) (Filter, error) {
	i := slices.Index(levels, Level(least))
	if i < 0 {
		return Filter{}, fmt.Errorf("there is no severity %q: use error, warning or note", least)
	}
	for _, id := range rules {
		if !slices.Contains(RuleIDs(), id) {
			return Filter{}, fmt.Errorf("there is no rule %q: docs/reference/check-provider.md lists them", id)
		}
	}
	return Filter{i, rules}, nil
}

func (f Filter) apply(findings []Finding) []Finding {
	return slices.DeleteFunc(findings, func(found Finding) bool {
		return slices.Index(levels, found.Level) < f.least || len(f.rules) > 0 && !slices.Contains(f.rules, found.Rule)
	})
}

// RuleIDs are the IDs of all rules, in their order.
func RuleIDs() []string {
	ids := make([]string, 0, len(Rules))
	for _, rule := range Rules {
		ids = append(ids, rule.ID)
	}
	return ids
}

// Check applies every rule to a release. The findings come in the order of files
// and lines.
func Check(r *Release) []Finding {
	findings := slices.Clone(r.unreadable)
	for _, rule := range applied(r) {
		rule.check(r, func(at place, message string) {
			findings = append(findings, rule.finding(at, message))
		})
	}
	// One fault may be met on several ways.
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings)
}

// applied are the rules for a release: all, or those that a file alone can break.
func applied(r *Release) []Rule {
	if !r.Partial {
		return Rules
	}
	return slices.DeleteFunc(slices.Clone(Rules), func(rule Rule) bool { return rule.Whole })
}

// place is where a finding is.
type place struct {
	file   string
	line   int
	object string
}

// report takes one finding of a rule.
type report func(at place, message string)

// Rule is one rule of a contract.
type Rule struct {
	// ID never changes: it is what a report is filtered by.
	ID    string
	Level Level
	// Title is the rule in one sentence.
	Title string
	// Contract names the section the rule comes from.
	Contract string
	// Remedy says what to do when the rule is broken.
	Remedy string
	// Whole says that the rule is about the files of a release together, and has no
	// meaning for one of them.
	Whole bool
	check func(*Release, report)
}

func (r Rule) finding(at place, message string) Finding {
	return Finding{
		Rule: r.ID, Level: r.Level, File: at.file, Line: at.line, Object: at.object,
		Message: message, Remedy: r.Remedy, Contract: r.Contract,
	}
}

// Rules are all rules, in the order of the contracts.
var Rules = slices.Concat(repositoryRules, metadataRules, readingRules, componentsRules, wiringRules, managerRules, crdRules, fieldRules, roleRules, ipamRules, templateRules, classRules)
