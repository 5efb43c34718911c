package kubelet

import (
	"context"
	"testing"
	"time"
)

// manager is a systemctl that prints this.
type manager struct {
	prints  string
	missing bool
}

func (m *manager) Has(string) bool { return !m.missing }

func (m *manager) Run(context.Context, string, ...string) ([]byte, error) {
	return []byte(m.prints), nil
}

func (m *manager) RunInput(context.Context, []byte, string, ...string) ([]byte, error) {
	return nil, nil
}

// The begin of a stop stays while the unit is in one state or another that is not active, and a
// when it ends again soon after a start. One that ran for half a minute meanwhile begins again.
func TestServices(t *testing.T) {
	m, now := &manager{}, time.Unix(1_000, 0)
	s := &Services{Runner: m, Now: func() time.Time { return now }}
	for i, step := range []struct {
		prints string
		since  int64
		state  string
	}{
		{"active\nactive\n", 0, "active"},
		{"inactive\nactive\n", 1_010, "inactive"},
		{"activating\nactive\n", 1_010, "activating"},
		{"active\nactive\n", 0, "active"},
		{"failed\nactive\n", 1_010, "failed"},
		{"active\nactive\n", 0, "active"},
		{"active\nactive\n", 0, "active"},
		{"active\nactive\n", 0, "active"},
		{"active\nactive\n", 0, "active"},
		{"failed\nactive\n", 1_090, "failed"},
		{"", -1, ""},
		{"active\n", -1, ""},
	} {
		m.prints = step.prints
		got := s.Read(t.Context())
		now = now.Add(10 * time.Second)
		if step.since < 0 {
			if got != nil {
				t.Errorf("step %d: %+v, want none", i, got)
			}
			continue
		}
		since := int64(0)
		if len(got) == 2 && !got[0].Since.IsZero() {
			since = got[0].Since.Unix()
		}
		if len(got) != 2 || got[0].Name != "kubelet" || got[0].State != step.state || since != step.since || got[1].Name != "containerd" || !got[1].Since.IsZero() {
			t.Errorf("step %d: %+v, want the kubelet %s since %d", i, got, step.state, step.since)
		}
	}
	m.missing = true
	if got := s.Read(t.Context()); got != nil {
		t.Errorf("without systemctl: %+v", got)
	}
}
