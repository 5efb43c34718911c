package run

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

// Status prints what the journal says. It changes nothing.
func Status(c *config.AgentConfiguration, out io.Writer) error {
	s, err := journal.Read(filepath.Join(c.StateDir, JournalFile))
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value == "" {
			value = "none"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
	line("Claim", s.ClaimID)
	line("Claim generation", fmt.Sprint(s.ClaimGeneration))
	if op := s.Operation; op != nil {
		line("Operation", fmt.Sprintf("%s (%s) %s", op.ID, op.Phase, op.State))
		line("Step", op.Step)
		line("Reason", strings.TrimSpace(op.Reason+" "+op.Message))
		line("Failures, interruptions", fmt.Sprintf("%d, %d", op.Failures, op.Interruptions))
		line("Started", op.StartTime.Format(time.RFC3339))
	} else {
		line("Operation", "")
	}
	line("Left on the host", string(s.Residue))
	line("Virtual IP", s.VirtualIP)
	if p := s.CleanProof; p != nil {
		line("Clean", fmt.Sprintf("yes, of claim generation %d at %s", p.ClaimGeneration, p.Time.UTC().Format(time.RFC3339)))
	} else {
		line("Clean", "not proved")
	}
	return w.Flush()
}
