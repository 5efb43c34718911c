package lifecycle

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// moment is when a program is killed.
type moment int

const (
	// never lets it live.
	never moment = iota
	// before: the effect is on the way and does not happen.
	before
	// after: the effect has happened, and nobody learns of it.
	after
)

// fault says when to kill at an effect, the nth of a life.
type fault func(life, nth int, effect string) moment

// effects are what one replica changes outside of itself, in their order.
type effects struct {
	// kill ends the process.
	kill func()
	// life counts the processes. It is read while an effect happens: the webhooks of
	// the program are called then, and read.
	life atomic.Int64

	mu    sync.Mutex
	fault fault
	seen  []string
	// nth effect of this life.
	nth  int
	dead bool
}

// born begins another life.
func (e *effects) born() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life.Add(1)
	e.nth, e.dead = 0, false
}

// killed says whether the last process was killed at an effect.
func (e *effects) killed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead
}

// happened returns the effects so far.
func (e *effects) happened() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// arm sets when to kill. Effects count from here, and this life is the first.
func (e *effects) arm(f fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault, e.seen, e.nth = f, nil, 0
	e.life.Store(1)
}

// pass has an effect happen, one at a time, and says whether the program lives to learn
// of it. What a killed program has sent does not happen any more.
func (e *effects) pass(life int64, effect string, happen func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || life != e.life.Load() {
		return false
	}
	e.nth++
	when := never
	if e.fault != nil {
		when = e.fault(int(life), e.nth, effect)
	}
	if when != before {
		happen()
		e.seen = append(e.seen, effect)
	}
	if when != never {
		e.dead = true
		e.kill()
	}
	return !e.dead
}

var infos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// effectOf names the effect of a request to an API server; "" when it has none that
// counts. Status is a view that can be lost; leases and events come when they come.
func effectOf(r *http.Request) (string, error) {
	info, err := infos.NewRequestInfo(r)
	if err != nil {
		return "", err
	}
	switch {
	case !info.IsResourceRequest, info.Verb == "get", info.Verb == "list", info.Verb == "watch",
		info.Subresource == "status", r.URL.Query().Has("dryRun"),
		info.Resource == "leases", info.Resource == "events", strings.HasSuffix(info.Resource, "reviews"):
		return "", nil
	}
	return info.Verb + " " + info.Resource, nil
}
