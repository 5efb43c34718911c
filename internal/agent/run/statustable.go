package run

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Write shows a status as a table, or as json.
func (s Status) Write(out io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(s)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value == "" {
			value = "none"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, value)
	}
	line("Version", s.Version)
	line("Host", s.Namespace+"/"+s.Host)
	line("Running", map[bool]string{true: "yes", false: "no"}[s.Running])
	line("Management cluster", s.Server)
	line("Connection", strings.TrimSpace(string(s.Connection.State)+" "+s.Connection.Message))
	line("Last heartbeat", moment(s.Connection.LastHeartbeat))
	line("Certificate ends", moment(s.CertificateExpires))
	line("Enrollment ends", moment(s.EnrollmentExpires))
	line("Waiting for", s.WaitingFor)
	if u := s.AgentUpdate; u != nil {
		line("Agent update", strings.TrimSpace(fmt.Sprintf("%s %s %s", u.Version, u.State, u.Message)))
	}
	s.Journal.lines(line)
	return w.Flush()
}

func (j Journal) lines(line func(name, value string)) {
	line("Claim", j.ClaimID)
	line("Claim generation", fmt.Sprint(j.ClaimGeneration))
	if op := j.Operation; op != nil {
		line("Operation", fmt.Sprintf("%s (%s) %s", op.ID, op.Phase, op.State))
		line("Step", op.Step)
		line("Reason", strings.TrimSpace(op.Reason+" "+op.Message))
		line("Failures, interruptions", fmt.Sprintf("%d, %d", op.Failures, op.Interruptions))
		line("Started", op.StartTime.Format(time.RFC3339))
	} else {
		line("Operation", "")
	}
	line("Left on the host", string(j.Residue))
	line("Virtual IP", j.VirtualIP)
	if p := j.CleanProof; p != nil {
		line("Clean", fmt.Sprintf("yes, of claim generation %d at %s", p.ClaimGeneration, p.Time.UTC().Format(time.RFC3339)))
	} else {
		line("Clean", "not proved")
	}
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
