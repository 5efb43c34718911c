package enroll

import (
	"os"
	"testing"
	"time"
)

// The clock of a host may be years ahead when its agent starts, until the network has set it. The agent
// then uses the certificate on its disk, which is good for most of a year: it needs neither a token nor
// a restart.
func TestClockThatWasWrongAtTheStart(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	enroll(t, e)
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	e.Now = func() time.Time { return time.Now().AddDate(40, 0, 0) }
	session := enroll(t, e)
	// The clock was set, and a day has passed: the certificate to work with has ended.
	later := func() time.Time { return time.Now().Add(30 * time.Hour) }
	s.mu.Lock()
	s.now = later
	s.mu.Unlock()
	e.Now = later
	if err := session.renew(t.Context(), true); err != nil || !session.Expires().After(later()) {
		t.Errorf("the agent has no certificate to work with any more (it ended at %s): %v", session.Expires(), err)
	}
	// A restart has the same files, and needs nothing else.
	if err := enroll(t, e).renew(t.Context(), true); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// A clock that nothing sets, years off as without a battery, costs no enrollment: what has ended is for the
// management cluster to say.
func TestClockThatStaysWrong(t *testing.T) {
	for name, years := range map[string]int{"ahead": 2, "behind": -30} {
		t.Run(name, func(t *testing.T) {
			s := newSigner(t)
			e := enroller(t, s)
			e.Now = func() time.Time { return time.Now().AddDate(years, 0, 0) }
			session := enroll(t, e)
			if err := os.Remove(e.BootstrapKubeconfig); err != nil {
				t.Fatal(err)
			}
			for days := 1; days < 4; days++ {
				passed := time.Duration(days) * 30 * time.Hour
				s.mu.Lock()
				s.now = func() time.Time { return time.Now().Add(passed) }
				s.mu.Unlock()
				e.Now = func() time.Time { return s.now().AddDate(years, 0, 0) }
				if err := session.renew(t.Context(), true); err != nil || !session.Expires().After(s.now()) {
					t.Fatalf("after %s the agent has no certificate to work with (it ended at %s): %v", passed, session.Expires(), err)
				}
				session = enroll(t, e)
			}
		})
	}
}
