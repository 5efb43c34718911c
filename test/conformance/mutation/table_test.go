package main

import (
	"os"
	"path/filepath"
	"slices"
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
		fits(t, m)
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

// TestOtherMutationsFit holds that each mutation of pools, waiting machines, the lifecycle engine and the
// boundaries is one of the code as it is, and that the test which must notice is there, with
// the part of it that is named.
func TestOtherMutationsFit(t *testing.T) {
	for _, m := range slices.Concat(poolMutations, waitingMutations, lifecycleMutations, trustMutations) {
		fits(t, m)
		files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests strings.Builder
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(text)
		}
		test, part, parted := strings.Cut(m.Test, "/")
		if !strings.Contains(tests.String(), "func "+test+"(") || parted && !strings.Contains(tests.String(), `"`+part+`"`) {
			t.Errorf("%s: %s has no %s", m.Rule, m.Package, m.Test)
		}
	}
}

// root of the repository.
var root = filepath.Join("..", "..", "..")

// fits fails unless a mutation breaks something of the code as it is.
func fits(t *testing.T, m mutation) {
	t.Helper()
	if m.Old == m.New || m.Breaks == "" {
		t.Errorf("%s: a mutation changes something and says what it breaks", m.Rule)
	}
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		t.Error(err)
	} else if !strings.Contains(string(text), m.Old) {
		t.Errorf("%s: %s no longer has what the mutation %q replaces; choose what breaks the rule today:\n%s", m.Rule, m.File, m.Breaks, m.Old)
	}
}
