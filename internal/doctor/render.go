package doctor

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/text"
)

// severityRoles are how severities are shown.
var severityRoles = map[Severity]display.Role{Error: display.Bad, Warning: display.Wait, Note: display.Off}

// Render writes r for a person; wide adds what mends each finding in general.
func Render(page *display.Page, r Report, wide bool) {
	for i := range r.Findings {
		f := &r.Findings[i]
		page.Table(display.Table{Rows: []display.Row{{Cells: []display.Cell{
			{Text: string(f.Severity), Role: severityRoles[f.Severity]}, {Text: f.Check}, {Text: f.Object.String()}, {Text: sinceText(f.Since, r.Time)},
		}}}})
		page.Paragraph("  ", text.OneLine(f.Message))
		if wide {
			page.Paragraph("  remedy: ", f.Remedy)
		}
		// A command is not broken into lines, to be copied.
		fmt.Fprintf(page, "  next: %s\n\n", f.Next)
	}
	for _, u := range r.Unread {
		page.Paragraph("not looked at: ", fmt.Sprintf("%s (%s)", u.Kind, text.OneLine(u.Message)))
	}
	fmt.Fprintln(page, r.summary())
}

// sinceText: what was found may have begun after now, while the objects were read.
func sinceText(since *time.Time, now time.Time) string {
	if since == nil {
		return ""
	}
	return "since " + duration.HumanDuration(max(0, now.Sub(*since)))
}

func (r Report) summary() string {
	where := ""
	if len(r.Unread) > 0 {
		where = " in what you may read"
	}
	if len(r.Findings) == 0 {
		return fmt.Sprintf("No problems found%s (%s, %s, %s).", where, text.Plural(len(checks), "check"), text.Plural(r.hosts, "host"), text.Plural(r.clusters, "cluster"))
	}
	var counts []string
	for _, severity := range []Severity{Error, Warning, Note} {
		if n := r.Count(severity); n > 0 {
			counts = append(counts, text.Plural(n, string(severity)))
		}
	}
	return fmt.Sprintf("%s%s. -o wide shows remedies, docs/troubleshooting.md each by its name.", strings.Join(counts, ", "), where)
}
