package handover

import (
	"testing"
	"time"
)

// A hand-over that has ended leads nobody anywhere, also from the disk of the host; one
// that is prolonged does.
func TestEndedHandOverLeadsNowhere(t *testing.T) {
	s := newScene(t)
	handOver := s.signedUntil(s.key, time.Now().Add(time.Hour))
	s.set(handOver)
	s.announce(handOver.Revision())
	s.reports(handOver.Revision() + " Ready")
	ended := time.Now().Add(-time.Second).UTC()
	if s.keeper.remember(func(known *state) { known.Prepared.Expires = ended }) != nil {
		t.Fatal("it is not kept")
	}
	s.restart()
	s.announce(handOver.Revision())
	s.reports("ended at " + ended.Format(time.RFC3339))
	s.keeper.Unserved(nil)
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due != nil {
		t.Error("the agent goes after the end")
	}
	s.set(s.signedUntil(s.key, time.Now().Add(time.Hour)))
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due == nil {
		t.Error("the agent does not go although the hand-over was prolonged")
	}
}

// The operator may write another time while agents are prepared. It is signed and announced
// anew, so they learn it with the next heartbeat.
func TestLearnsWhenTheHandOverEnds(t *testing.T) {
	soon, late, past := time.Now().Add(time.Hour).UTC(), time.Now().Add(24*time.Hour).UTC(), time.Now().Add(-time.Minute).UTC()
	for name, c := range map[string]struct {
		before, after time.Time
		reports       string
	}{
		"prolonged": {soon, late, " Ready"},
		"shortened": {late, soon, " Ready"},
		"ended":     {soon, past, "ended at " + past.Format(time.RFC3339)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			handOver := s.signedUntil(s.key, c.before)
			s.set(handOver)
			s.announce(handOver.Revision())
			if got := s.ends(); !got.Equal(c.before) {
				t.Fatalf("the agent follows until %s, not %s", got, c.before)
			}
			changed := s.signedUntil(s.key, c.after)
			s.set(changed)
			s.announce(changed.Revision())
			s.reports(c.reports)
			s.restart()
			if got := s.ends(); !got.Equal(c.after) {
				t.Errorf("the agent follows until %s, not %s", got, c.after)
			}
		})
	}
}

// Whoever serves the Secret prolongs nothing: neither for an agent that is prepared, nor for one
// that was away and finds its Host gone.
func TestNobodyProlongsAHandOver(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC()
	for name, prepared := range map[string]bool{"prepared": true, "was away": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			handOver := s.signedUntil(s.key, soon)
			s.announce("")
			if prepared {
				s.set(handOver)
				s.announce(handOver.Revision())
			}
			forged := *handOver
			forged.Expires = soon.Add(24 * time.Hour)
			s.set(&forged)
			s.keeper.Unserved(nil)
			s.keeper.prepare(t.Context())
			if s.prepared() != prepared {
				t.Fatalf("prepared is %t, want %t", s.prepared(), prepared)
			}
			if prepared {
				if got := s.ends(); !got.Equal(soon) {
					t.Errorf("the agent follows until %s, not %s", got, soon)
				}
			}
		})
	}
}

// A hand-over that ends while the Host is gone already ends for an agent that can read it.
func TestLearnsTheEndWhenItsHostIsGone(t *testing.T) {
	s := newScene(t)
	handOver := s.signedUntil(s.key, time.Now().Add(time.Hour))
	s.set(handOver)
	s.announce(handOver.Revision())
	s.keeper.Unserved(nil)
	s.set(s.signedUntil(s.key, time.Now().Add(-time.Minute)))
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due != nil {
		t.Error("the agent goes after the end")
	}
}
