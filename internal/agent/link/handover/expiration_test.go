package handover

import (
	"testing"
	"time"
)

// A hand-over that has ended leads nobody anywhere, also from the disk of the host; one
// that is prolonged does.
func TestEndedHandOverLeadsNowhere(t *testing.T) {
	s := newScene(t)
	handOver := s.signed(s.key)
	handOver.Expires = time.Now().Add(time.Hour)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.reports(handOver.Revision() + " Ready")
	if handOver.Expires = time.Now().Add(-time.Second); s.keeper.remember(func(known *state) { known.Prepared.Expires = handOver.Expires }) != nil {
		t.Fatal("it is not kept")
	}
	s.restart()
	s.announce(handOver.Revision())
	s.reports("ended at " + handOver.Expires.Format(time.RFC3339))
	s.keeper.Unserved(nil)
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due != nil {
		t.Error("the agent goes after the end")
	}
	prolonged := *handOver
	prolonged.Expires = time.Now().Add(time.Hour)
	s.set(&prolonged)
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due == nil {
		t.Error("the agent does not go although the hand-over was prolonged")
	}
}

// The operator may write another time while agents are prepared, which is announced to nobody:
// they learn it when they make sure that they can go.
func TestLearnsWhenTheHandOverEnds(t *testing.T) {
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(24*time.Hour).Truncate(time.Second)
	past := time.Now().Add(-time.Minute).Truncate(time.Second)
	for name, c := range map[string]struct {
		before, after, want time.Time
		reports             string
	}{
		"prolonged":                    {soon, late, late, " Ready"},
		"shortened":                    {late, soon, soon, " Ready"},
		"ended":                        {soon, past, past, "ended at " + past.UTC().Format(time.RFC3339)},
		"of an agent that knew no end": {time.Time{}, soon, soon, " Ready"},
		"a time that is none":          {soon, time.Time{}, soon, " Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			handOver := s.signed(s.key)
			handOver.Expires = c.before
			s.set(handOver)
			s.announce(handOver.Revision())
			changed := *handOver
			changed.Expires = c.after.UTC()
			s.set(&changed)
			s.keeper.prepare(t.Context())
			if got := s.ends(); !got.Equal(c.before) {
				t.Fatalf("it looked a moment ago, and again: the end is %s", got)
			}
			s.keeper.looked = s.keeper.looked.Add(-probeEvery)
			s.keeper.prepare(t.Context())
			s.reports(c.reports)
			s.restart()
			if got := s.ends(); !got.Equal(c.want) {
				t.Errorf("the agent follows until %s, not %s", got, c.want)
			}
		})
	}
}

// A source that does not answer, or lets nobody read, leaves a prepared agent as it is.
func TestStaysReadyWhenItCannotLearnTheEnd(t *testing.T) {
	s := newScene(t)
	handOver := s.signed(s.key)
	handOver.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.set(nil)
	s.keeper.looked = s.keeper.looked.Add(-probeEvery)
	s.keeper.prepare(t.Context())
	s.reports(handOver.Revision() + " Ready")
	if got := s.ends(); !got.Equal(handOver.Expires) {
		t.Errorf("the agent follows until %s, not %s", got, handOver.Expires)
	}
	// Thousands of agents that cannot reach the target do not ask the source every five seconds.
	s.target.Close()
	reads := s.reads
	for range 3 {
		s.keeper.probed = time.Time{}
		s.keeper.prepare(t.Context())
	}
	s.reports("cannot reach " + s.target.URL)
	if s.reads != reads {
		t.Errorf("it read the Secret %d times at once", s.reads-reads)
	}
}

// A hand-over that ends while the Host is gone already ends for an agent that can read it.
func TestLearnsTheEndWhenItsHostIsGone(t *testing.T) {
	s := newScene(t)
	handOver := s.signed(s.key)
	handOver.Expires = time.Now().Add(time.Hour)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.keeper.Unserved(nil)
	ended := *handOver
	ended.Expires = time.Now().Add(-time.Minute)
	s.set(&ended)
	s.keeper.prepare(t.Context())
	if due, _ := s.keeper.abandoned(); due != nil {
		t.Error("the agent goes after the end")
	}
}
