package cli

import (
	"strings"
	"testing"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"

	"github.com/slipway-dev/slipway/internal/display"
)

// One result is the same thing in every format, and steers no terminal in those that
// people read.
func TestFormats(t *testing.T) {
	d := decided{Namespace: "prod", Run: "a-1", Decision: lifecyclev1.Decision{Type: lifecyclev1.DecisionSkip, Step: "backup", By: "eve\x1b[2J", Reason: "r"}}
	for format, want := range map[string]string{
		outputTable: "a-1: Skip of step backup recorded for eve^[[2J\n",
		outputWide:  "a-1: Skip of step backup recorded for eve^[[2J\n",
		outputName:  "lifecyclerun.lifecycle.slipway.dev/a-1\n",
		outputJSON:  `{"namespace":"prod","run":"a-1","decision":{"type":"Skip","step":"backup","by":"eve\u001b[2J","reason":"r"}}` + "\n",
		outputYAML:  "decision:\n  by: \"eve\\e[2J\"\n  reason: r\n  step: backup\n  type: Skip\nnamespace: prod\nrun: a-1\n",
	} {
		var out strings.Builder
		if err := decidedResult(d).write(&out, format); err != nil || out.String() != want {
			t.Errorf("-o %s: %v, got %q, want %q", format, err, out.String(), want)
		}
	}
}

// Terminals take single characters beyond ESC for commands: those of C1, of which U+009B begins a
// sequence, and bytes that are not UTF-8; others turn the direction of what is shown.
func TestNothingSteersATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n": "a\tb\n", "ü €": "ü €", "\x1b[2J": "^[[2J", "a\rb": `a\rb`, "\u009b2J": `\u009b2J`, "\u0080\u009d": `\u0080\u009d`,
		"\u202egnp.exe": `\u202egnp.exe`, "a\u2066b\u2069\u200e\u061c": `a\u2066b\u2069\u200e\u061c`, "a\u2028b\u2029": `a\u2028b\u2029`,
		"\x00\a\b\v\x7f": `\u0000\u0007\u0008\u000b\u007f`, "a\x9b2J": "a\ufffd2J", "\xc2": "\ufffd",
	} {
		var out strings.Builder
		if err := display.WriteVisible(&out, text); err != nil || out.String() != want {
			t.Errorf("%q: got %q, want %q: %v", text, out.String(), want, err)
		}
	}
}
