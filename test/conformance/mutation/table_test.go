package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// TestMutationsFit holds that each mutation is one of the code as it is, and that each
// rule of the suite has one or a reason to have none.
func TestMutationsFit(t *testing.T) {
	rules := map[string]bool{}
	for contract, list := range provider.Rules() {
		for _, rule := range list {
			rules[contract+"/"+rule.Name] = withoutMutation[contract+"/"+rule.Name] != ""
		}
	}
	for _, m := range mutations {
		if _, known := rules[m.Rule]; !known {
			t.Errorf("%q: there is no rule %s", m.Breaks, m.Rule)
		}
		rules[m.Rule] = true
		if m.Old == m.New || m.Breaks == "" {
			t.Errorf("%s: a mutation changes something and says what it breaks", m.Rule)
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "..", m.File))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(text), m.Old) {
			t.Errorf("%s: %s no longer has what the mutation %q replaces; choose what breaks the rule today:\n%s", m.Rule, m.File, m.Breaks, m.Old)
		}
	}
	for rule, broken := range rules {
		if !broken {
			t.Errorf("no mutation breaks %s: nothing shows that it can fail", rule)
		}
	}
	for rule := range withoutMutation {
		if _, known := rules[rule]; !known {
			t.Errorf("there is no rule %s", rule)
		}
	}
}
