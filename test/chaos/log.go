package chaos

import (
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/test/chaos/judge"
)

// Log collects entries from several watches.
type Log struct {
	mu      sync.Mutex
	entries []judge.Entry
	// newest revision of each cluster.
	newest map[string]uint64
}

// Add appends an entry that is seen now.
func (l *Log) Add(e judge.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest == nil {
		l.newest = map[string]uint64{}
	}
	e.Seen = time.Now()
	l.newest[e.Cluster] = max(l.newest[e.Cluster], e.Revision)
	l.entries = append(l.entries, e)
}

// Entries are those so far.
func (l *Log) Entries() []judge.Entry { return l.Since(0) }

// Since are the entries from a number on.
func (l *Log) Since(n int) []judge.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[n:])
}

func (l *Log) newestOf(cluster string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[cluster]
}
