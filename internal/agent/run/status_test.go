package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

func TestWaitingFor(t *testing.T) {
	past, now, later := time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	connected := Connection{State: ConnectionConnected}
	good := Status{Running: true, Host: "a", Namespace: "prod", Server: "https://m", Connection: connected}
	claimed := &infrav1.Host{Spec: infrav1.HostSpec{Claim: &infrav1.HostClaim{}}}
	with := func(change func(*Status)) Status {
		s := good
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		status Status
		host   *infrav1.Host
		token  bool
		want   string
	}{
		"nothing":    {status: good, host: claimed},
		"stopped":    {status: with(func(s *Status) { s.Running = false }), want: "systemctl enable --now slipway-agent"},
		"no token":   {status: with(func(s *Status) { s.Server = "" }), want: "a bootstrap kubeconfig"},
		"not signed": {status: with(func(s *Status) { s.Server = "" }), token: true, want: "to sign its certificate"},
		"ended":      {status: with(func(s *Status) { s.CertificateExpires = &past }), want: "host token --uses 0 --join-command"},
		"off for a weekend": {status: with(func(s *Status) {
			s.CertificateExpires, s.EnrollmentExpires, s.Connection.State = &past, &later, ConnectionRefused
		}), want: "the management cluster at https://m"},
		"refused":        {status: with(func(s *Status) { s.CertificateExpires, s.Connection.State = &later, ConnectionRefused }), want: "it refused this host: was its Host deleted?"},
		"off for a year": {status: with(func(s *Status) { s.CertificateExpires, s.EnrollmentExpires = &past, &past }), want: "host token --uses 0 --join-command"},
		"unreachable":    {status: with(func(s *Status) { s.Connection.State = ConnectionUnreachable }), want: "the management cluster at https://m"},
		"not approved":   {status: good, host: &infrav1.Host{Spec: infrav1.HostSpec{Approval: infrav1.HostApprovalPending}}, want: "slipway host approve a -n prod"},
		"failed": {status: with(func(s *Status) {
			s.Journal.Operation = &journal.Operation{Step: "reset: verify", State: infrav1.OperationFailed, Reason: "NotClean", Message: "port 6443"}
		}), host: claimed, want: "what failed: reset: verify: NotClean port 6443"},
		"foreign": {status: with(func(s *Status) { s.Journal.Found = []string{"process kubelet"} }), host: &infrav1.Host{}, want: "process kubelet"},
		"free":    {status: good, host: &infrav1.Host{}, want: "a machine to claim the host"},
	} {
		got := waitingFor(tc.status, tc.host, tc.token, now)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: waits for %q, want %q", name, got, tc.want)
		}
	}
}

// A host that never enrolled has a status, and looking makes nothing.
func TestStatusOfNothing(t *testing.T) {
	c := config.Default()
	c.Namespace, c.StateDir = "prod", filepath.Join(t.TempDir(), "state")
	c.BootstrapKubeconfig = filepath.Join(c.StateDir, "none")
	s, err := ReadStatus(t.Context(), c)
	if err != nil || s.Running || s.Connection.State != ConnectionNone || s.CertificateExpires != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := os.Stat(c.StateDir); err == nil {
		t.Error("it made the state directory")
	}
	var out bytes.Buffer
	var parsed map[string]any
	if err := s.Write(&out, "json"); err != nil || json.Unmarshal(out.Bytes(), &parsed) != nil || parsed["running"] != false || parsed["connection"].(map[string]any)["state"] != "NotEnrolled" {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := s.Write(&out, "table"); err != nil || !strings.Contains(out.String(), "  NotEnrolled\n") {
		t.Errorf("%v: %s", err, &out)
	}
}

// An update that is under way, or failed, is told of.
func TestStatusOfAnUpdate(t *testing.T) {
	c := config.Default()
	c.Namespace, c.StateDir = "prod", t.TempDir()
	record := `{"version":"v0.2.0","releaseDigest":"sha256:a","attempts":3,"state":"Failed","message":"load a mended release"}`
	if err := os.WriteFile(filepath.Join(c.StateDir, "agent-update.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadStatus(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var table, encoded bytes.Buffer
	var parsed struct{ AgentUpdate map[string]any }
	if err := errors.Join(s.Write(&table, "table"), s.Write(&encoded, "json"), json.Unmarshal(encoded.Bytes(), &parsed)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "  v0.2.0 Failed load a mended release\n") || parsed.AgentUpdate["state"] != "Failed" || parsed.AgentUpdate["attempts"] != 3.0 {
		t.Errorf("%s%s", &table, &encoded)
	}
	if err := os.WriteFile(filepath.Join(c.StateDir, "agent-update.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStatus(t.Context(), c); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("err = %v", err)
	}
}

// Whoever holds the lock runs.
func TestStatusOfOneThatRuns(t *testing.T) {
	c := config.Default()
	c.Namespace, c.StateDir = "prod", t.TempDir()
	unlock, err := lock(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if s, err := ReadStatus(t.Context(), c); err != nil || s.Running != want {
			t.Errorf("%+v, %v", s, err)
		}
		unlock()
	}
}
