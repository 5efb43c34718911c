package hostmachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/placement"
)

// rankingTime is how long a ranking serves other machines that ask for the same. It is
// far less than takingTime, so that a host it still names for free is either reserved
// or free.
const rankingTime = time.Second

// ranking is the choice among all hosts of a namespace. Each host of it is judged by
// the chooser again, as it is then, before it is claimed.
type ranking struct {
	chooser *placement.Chooser
	hosts   []placement.Fit
}

// rankings keeps the last ranking for each request: the members of a pool ask for the
// same, and ranking thousands of hosts for each of thousands of machines would take
// minutes. The zero value is ready for use.
type rankings struct {
	mu   sync.Mutex
	kept map[string]keptRanking
}

type keptRanking struct {
	ranking
	until time.Time
}

// rankingKey is the same for machines that ask for the same.
func rankingKey(namespace string, request placement.Request) (string, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("tell what the machine asks for: %w", err)
	}
	return namespace + "/" + string(data), nil
}

func (r *rankings) get(key string, now time.Time) (ranking, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.kept[key]
	return kept.ranking, now.Before(kept.until)
}

func (r *rankings) put(key string, of ranking, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.kept, func(_ string, kept keptRanking) bool { return !now.Before(kept.until) })
	if r.kept == nil {
		r.kept = map[string]keptRanking{}
	}
	r.kept[key] = keptRanking{of, now.Add(rankingTime)}
}
