package bundleserver

import "sync"

// limits bound the downloads at once: each takes buffers, a file and a part of the network,
// and one host must not take the place of all others.
type limits struct {
	all, each int

	mu    sync.Mutex
	under map[string]int
	total int
}

// take begins a download of a client, unless there are too many.
func (l *limits) take(who string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.all || l.under[who] >= l.each {
		return nil, false
	}
	if l.under == nil {
		l.under = map[string]int{}
	}
	l.total++
	l.under[who]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total--
		if l.under[who]--; l.under[who] == 0 {
			delete(l.under, who)
		}
	}, true
}
