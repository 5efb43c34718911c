package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/test/chaos/judge"
)

// around is how much of the history is shown before and after a violation.
const around = 90 * time.Second

// fail reports a violation: what it is, the schedule up to it, the history around it, and
// how to repeat it. Without an entry there is no history to show.
func (r *run) fail(message string, entry judge.Entry, hosts []string) {
	r.t.Helper()
	var report strings.Builder
	report.WriteString(message + "\n\nthe schedule up to it:\n")
	for _, s := range r.done {
		report.WriteString("  " + s.String() + "\n")
	}
	entries := r.log.Entries()
	if !entry.Seen.IsZero() {
		lines, err := judge.Around(entries, entry, around, hosts)
		if err != nil {
			report.WriteString(err.Error() + "\n")
		}
		report.WriteString("\nthe history around it:\n  " + strings.Join(lines, "\n  ") + "\n")
	}
	dir := r.t.ArtifactDir()
	if err := r.save(dir, entries); err != nil {
		report.WriteString(err.Error() + "\n")
	}
	report.WriteString("\nto repeat it:            make chaos SEED=" + strconv.FormatUint(*seed, 10) + " DURATION=" + duration.String() + leftOut() +
		"\nto judge it again:       go test ./test/chaos -run TestHistory -args -history " + filepath.Join(dir, "history.jsonl") + "\n")
	r.t.Error(report.String())
}

// leftOut is how make is told what -without says.
func leftOut() string {
	if *without == "" {
		return ""
	}
	return fmt.Sprintf(" WITHOUT=%q", *without)
}

// save keeps the history and the logs.
func (r *run) save(dir string, entries []judge.Entry) error {
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	err = errors.Join(judge.Write(f, entries), f.Close())
	if r.plane == nil {
		return err
	}
	for _, pattern := range []string{"plane.log", "hosts/*/var/log/slipway-agent.log"} {
		files, _ := filepath.Glob(filepath.Join(r.plane.StateDir, pattern))
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			name, _ := filepath.Rel(r.plane.StateDir, file)
			err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "_")), data, 0o600))
		}
	}
	return err
}
