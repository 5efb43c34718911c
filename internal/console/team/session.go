package team

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions bounds the watches that the console has, and maxOfUser those of one user. With one more, the session that
	// was used longest ago ends.
	maxSessions, maxOfUser = 64, 4
	// maxAttempts bounds what browsers that have not signed in yet leave.
	maxAttempts = 1024
	// signInPatience is how long somebody may take at the provider.
	signInPatience = 10 * time.Minute
)

// session of one browser.
type session struct {
	user user
	csrf string
	// pages for that user alone.
	pages http.Handler
	ends  time.Time
	// closed ends its pages; requests of it end, too.
	closed context.Context //nolint:containedctx // the life of the session, which outlives the request that began it
	close  func()

	used time.Time
}

// sessions by the names in cookies, and attempts to begin one.
type sessions struct {
	mu       sync.Mutex
	open     map[string]*session
	attempts map[string]*attempt
	now      func() time.Time
}

func newSessions() *sessions {
	return &sessions{open: map[string]*session{}, attempts: map[string]*attempt{}, now: time.Now}
}

// await keeps an attempt, and returns its name.
func (s *sessions) await(a *attempt) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	a.ends = now.Add(signInPatience)
	for name, kept := range s.attempts {
		if !now.Before(kept.ends) {
			delete(s.attempts, name)
		}
	}
	if len(s.attempts) >= maxAttempts {
		delete(s.attempts, oldest(s.attempts, func(a *attempt) time.Time { return a.ends }))
	}
	name := rand.Text()
	s.attempts[name] = a
	return name
}

// take returns an attempt, once.
func (s *sessions) take(name string) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attempts[name]
	delete(s.attempts, name)
	if a == nil || !s.now().Before(a.ends) {
		return nil
	}
	return a
}

// add opens a session, and returns its name.
func (s *sessions) add(opened *session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	opened.used = s.now()
	own := map[string]*session{}
	for name, o := range s.open {
		if o.user.name == opened.user.name {
			own[name] = o
		}
	}
	used := func(o *session) time.Time { return o.used }
	switch {
	case len(own) >= maxOfUser:
		s.remove(oldest(own, used))
	case len(s.open) >= maxSessions:
		s.remove(oldest(s.open, used))
	}
	name := rand.Text()
	s.open[name] = opened
	sessionCount.Set(float64(len(s.open)))
	return name
}

// of is the session of a name; nil when it has ended.
func (s *sessions) of(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	found := s.open[name]
	if found != nil {
		found.used = s.now()
	}
	return found
}

// drop ends a session.
func (s *sessions) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

// end ends those whose time has come.
func (s *sessions) end() {
	for name, o := range s.open {
		if !s.now().Before(o.ends) {
			s.remove(name)
		}
	}
}

func (s *sessions) remove(name string) {
	if o := s.open[name]; o != nil {
		delete(s.open, name)
		sessionCount.Set(float64(len(s.open)))
		o.close()
	}
}

func oldest[T any](all map[string]T, at func(T) time.Time) string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	return slices.MinFunc(names, func(a, b string) int { return cmp.Or(at(all[a]).Compare(at(all[b])), cmp.Compare(a, b)) })
}
