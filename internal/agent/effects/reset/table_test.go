package reset

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// notTraces are kinds of docs/hosts.md with a code of their own.
var notTraces = []string{"login"}

// TestDocumentedTable: docs/hosts.md says of each trace whether it is recorded, removed, restored and verified, and has
// no other kind.
func TestDocumentedTable(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### What is compared\n")
	documented := map[string][][]string{}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "#") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || !strings.Contains(cells[0], "`") {
			continue
		}
		for kind := range strings.SplitSeq(cells[0], ",") {
			kind = strings.Trim(kind, "` ")
			documented[kind] = append(documented[kind], cells[2:])
			if kind != kindFile {
				continue
			}
			for _, found := range regexp.MustCompile("`(/[^` ]*)`").FindAllStringSubmatch(cells[1], -1) {
				if p, ok := placeOf(found[1]); !ok || p.since > recordVersion {
					t.Errorf("docs/hosts.md says that %s is recorded, which is no place", found[1])
				}
			}
		}
	}
	full := journal.State{Baseline: &journal.Baseline{}, Operation: &journal.Operation{Phase: infrav1.HostDesiredReset, ResetPolicy: infrav1.ResetPolicyFull}}
	known := slices.Clone(notTraces)
	says := func(cell string) bool {
		word := strings.FieldsFunc(strings.TrimSpace(cell), func(r rune) bool { return strings.ContainsRune(" :;,", r) })
		return len(word) > 0 && word[0] != "no" && word[0] != "–"
	}
	for _, trace := range (Cleaner{}).traces(t.Context(), full, nil) {
		known = append(known, trace.kind)
		if trace.look == nil {
			t.Errorf("kind %q has no look, so nothing proves it", trace.kind)
		}
		rows := documented[trace.kind]
		for at, is := range []bool{!trace.always, trace.remove != nil || trace.kind == "Kubernetes", trace.restore != nil, true} {
			if !slices.ContainsFunc(rows, func(cells []string) bool { return says(cells[at]) == is }) {
				t.Errorf("docs/hosts.md does not say of kind %q in column %d what holds: %t; it has %q", trace.kind, at+3, is, rows)
			}
		}
	}
	described, err := os.ReadFile("../../run/config/clean.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range RecordedKinds(t.Context()) {
		if !regexp.MustCompile("Kind of state:[^.]*\\b" + kind + "\\b").Match(described) {
			t.Errorf("package config does not say that clean.ignore may name kind %q", kind)
		}
	}
	for kind := range documented {
		if !slices.Contains(known, kind) {
			t.Errorf("docs/hosts.md has kind %q, which is no trace", kind)
		}
	}
}

// TestMountsOfOlderRecords: what an older agent did not record of a mount is no change.
func TestMountsOfOlderRecords(t *testing.T) {
	for before, own := range map[string]bool{"ext4 /": true, "ext4 / rw shared": true, "ext4 / ro shared": false, "ext4 / rw shared forbids": false} {
		if is := ownMount(change{"/srv/data", before, "ext4 / rw shared forbids,nosuid"}, nil, nil); is != own {
			t.Errorf("a mount that was %q is the machine's own: %t", before, is)
		}
	}
}
