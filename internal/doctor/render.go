package doctor

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/slipway-dev/slipway/internal/text"
)

// Render writes r for a person; wide adds what mends each finding in general.
func Render(out io.Writer, r Report, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Severity, f.Check, f.Object, sinceText(f.Since, r.Time))
		// Text without tabs ends the columns, which are aligned anew below it.
		fmt.Fprintf(w, "  %s\n", text.OneLine(f.Message))
		if wide {
			fmt.Fprintf(w, "  remedy: %s\n", f.Remedy)
		}
		fmt.Fprintf(w, "  next: %s\n\n", f.Next)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(w, "not looked at: %s (%s)\n", u.Kind, text.OneLine(u.Message))
	}
	fmt.Fprintln(w, r.summary())
	return w.Flush()
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
		return "Nothing was found" + where + "."
	}
	return fmt.Sprintf("Errors: %d, warnings: %d, notes: %d%s. docs/troubleshooting.md has each by its name.", r.Count(Error), r.Count(Warning), r.Count(Note), where)
}
