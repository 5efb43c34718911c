package throttle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Spacing is the mean time between two reports of all objects in transition: the more
// there are, the longer each waits. The more they are, the longer they all take, too,
// since there is one API server for all.
const Spacing = 200 * time.Millisecond

// Status holds back the report of states that pass by themselves: it remembers since when
// objects are in transition. A manager that starts anew begins anew, which only delays
// what is reported. The zero value is ready for use.
type Status struct {
	mu           sync.Mutex
	inTransition map[types.NamespacedName]wait
}

type wait struct {
	since time.Time
	// length is the longest that any number of objects asked for meanwhile.
	length time.Duration
}

// Wait is how long the report on an object has to wait still; 0 means that it is
// due. What is not in transition is always due. Each report that is due begins another
// wait, so that progress shows once in a while; with a delay of zero, all are due.
func (s *Status) Wait(object types.NamespacedName, inTransition bool, delay time.Duration, now time.Time) time.Duration {
	if delay == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !inTransition {
		delete(s.inTransition, object)
		return 0
	}
	w, waits := s.inTransition[object]
	if !waits {
		w.since = now
	}
	w.length = max(w.length, delay, time.Duration(len(s.inTransition))*Spacing)
	left := w.length - now.Sub(w.since)
	if left <= 0 {
		w, left = wait{since: now}, 0
	}
	if s.inTransition == nil {
		s.inTransition = map[types.NamespacedName]wait{}
	}
	s.inTransition[object] = w
	return left
}

// Forget drops an object that is gone: while it is remembered, all others wait longer.
func (s *Status) Forget(object types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inTransition, object)
}
