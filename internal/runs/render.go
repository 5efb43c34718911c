package runs

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-dev/slipway/internal/text"
)

// Render writes e for a person.
func Render(out io.Writer, e Explanation) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "CLUSTER\t%s/%s\n", e.Namespace, e.Cluster)
	if len(e.Policies) == 0 {
		fmt.Fprintf(w, "\nNo LifecyclePolicy in namespace %s: every hook passes.\n", e.Namespace)
	} else {
		fmt.Fprint(w, "\nPOLICY\tMODE\tMATCHES\tHOOKS\tMESSAGE\n")
	}
	for _, p := range e.Policies {
		hooks := make([]string, 0, len(p.Hooks))
		for _, hook := range p.Hooks {
			hooks = append(hooks, string(hook))
		}
		fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", p.Name, p.Mode, p.Matches, strings.Join(hooks, ","), text.OneLine(p.Message))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range e.Runs {
		if err := renderRun(out, r); err != nil {
			return err
		}
	}
	return nil
}

func renderRun(out io.Writer, r Run) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	blocks := ""
	if r.Blocks {
		blocks = ", holds the cluster back"
	}
	fmt.Fprintf(w, "\n%s%s\nRUN\t%s\nPOLICY\t%s (%s, attempt %d)\n%s\t%s\n", r.Hook, versions(r), r.Name, r.Policy, r.Mode, r.Attempt,
		strings.ToUpper(string(r.Phase))+blocks, text.OneLine(r.Message))
	fmt.Fprint(w, "\n  STEP\tKIND\tSTATE\tSINCE\tUNTIL\tMESSAGE\n")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Kind, s.State, clock(s.Since), clock(s.Until), text.OneLine(s.Message))
	}
	for _, d := range r.Decisions {
		fmt.Fprintf(w, "  %s of %s by %s at %s\t%s\n", d.Type, d.Step, d.By, clock(&d.Time.Time), text.OneLine(d.Reason))
	}
	return w.Flush()
}

func versions(r Run) string {
	switch {
	case r.Request.ToKubernetesVersion != "":
		return fmt.Sprintf(" %s to %s", r.Request.FromKubernetesVersion, r.Request.ToKubernetesVersion)
	case r.Request.KubernetesVersion != "":
		return " " + r.Request.KubernetesVersion
	}
	return ""
}

func clock(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
