package budget

import (
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// betterWords lists words that this repository uses, and after the colon the words that Kubernetes
// engineers use instead. A word that also has a common meaning, such as take, counts in any
// meaning.
var betterWords = []string{
	"residue, left, strangers, lingering: leftovers, drift, foreign state",
	"keeper, holder, candidate, stand, yields, rival: elector, address binder, try acquire, back off until, duplicate address",
	"disown, proof, prove: abort adoption, cleanliness check, verify",
	"deed, situation, settle, hopeless, unbegun: action, state, record outcome, permanently failed, never started",
	"kitchen, pantry, recipe, ingredients: builder, layers, image definition, files",
	"announced, home, whereabouts: bundle discovery, enrollment location, enrollment state",
	"door, gather, places, arrival, mortal, outside, way out: extra listener, multi-listener, limit, component that can exit, external address, outbound dialer",
	"judge: evaluate, admit, isStale, plan",
	"take, hold, give back, withdraw, order: claim, lock, release, cancel, operation",
	"twin, former, standing, past the cache: duplicate, previous owner, verdict, live read",
	"Suits, Reject, Choose: Matches, Filter, Rank",
	"ask, asks, asked, flight, land, leave, alone: request, in-flight attempt, detach, cancel",
	"gate: condition, deletion guard, feature gate",
	"footprint, guess, shape, piece: decoded size",
	"world, stage, story, sickbay, plant, seed, look: fixture, template data, poll",
	"Choice, PassedOver, Departure, course, bring, forget, Seen: Options, IgnoredKubeconfig, RemoveRequest, runner, upload, delete, Expected",
	"taken, told, word, mend, heed, bear, sees to, has it that: claimed, notified, confirmation, repair, respect, tolerate, ensures",
}

// countWords counts them in Go comments and strings and in Markdown, without the changelog.
func countWords(t *testing.T, now figures) {
	t.Helper()
	var terms []string
	for _, row := range betterWords {
		here, _, _ := strings.Cut(row, ":")
		terms = append(terms, strings.Split(here, ", ")...)
	}
	var anyCase, asIs []string
	for _, term := range terms {
		now["word "+term] = 0
		if quoted := regexp.QuoteMeta(term); term == strings.ToLower(term) {
			anyCase = append(anyCase, quoted)
		} else {
			asIs = append(asIs, quoted) // a name in the code
		}
	}
	better := regexp.MustCompile(`\b(?:(?i:` + strings.Join(anyCase, "|") + `)|` + strings.Join(asIs, "|") + `)\b`)
	walk(t, func(name string, data []byte) {
		text := string(data)
		switch {
		case name == "CHANGELOG.md" || strings.HasPrefix(name, "test/budget/"):
			return
		case path.Ext(name) == ".go":
			text = prose(data)
		case path.Ext(name) != ".md":
			return
		}
		for _, found := range better.FindAllString(text, -1) {
			if !slices.Contains(terms, found) {
				found = strings.ToLower(found)
			}
			now["word "+found]++
		}
	})
}

// prose has the comments and strings of a file.
func prose(data []byte) string {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", files.Base(), len(data)), data, nil, scanner.ScanComments)
	var text strings.Builder
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return text.String()
		case token.COMMENT, token.STRING:
			text.WriteString(literal)
			text.WriteByte('\n')
		default:
		}
	}
}
