package reconciler

import (
	"sync"
	"time"
)

// Observed remembers the last value of each key, and since when it is that. The zero value
// is ready for use.
type Observed[K, V comparable] struct {
	mu     sync.Mutex
	values map[K]sinceEntry[V]
}

type sinceEntry[V comparable] struct {
	value V
	since time.Time
}

// Since notes the value of a key and returns when it was first seen without another one
// since: now, when it is new.
func (s *Observed[K, V]) Since(key K, value V, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.values[key]; ok && e.value == value {
		return e.since
	}
	if s.values == nil {
		s.values = map[K]sinceEntry[V]{}
	}
	s.values[key] = sinceEntry[V]{value, now}
	return now
}

// Forget drops a key.
func (s *Observed[K, V]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
}
