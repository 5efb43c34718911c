package hostmachine

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/slipway-dev/slipway/internal/placement"
)

// rankingTime is how long a ranking serves other machines that ask for the same. It is
// far less than reservationTime, so that a host it still names for free is either reserved
// or free.
const rankingTime = time.Second

// ranking is the order of the hosts of a namespace for a request. Each of them is judged again, as it
// is then, before it is claimed.
type ranking struct {
	query
	hosts []placement.Verdict
}

// query is what hosts are judged by, and for.
type query struct {
	snapshot     *placement.Snapshot
	requirements *placement.Requirements
}

// rankings keeps the last ranking for each request: the members of a pool ask for the
// same, and ranking thousands of hosts for each of thousands of machines would take
// minutes. The zero value is ready for use.
type rankings struct {
	once sync.Once
	kept *cache.Expiring
}

// rankingKey is the same for machines that ask for the same.
func rankingKey(namespace string, request placement.Request) (string, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("tell what the machine asks for: %w", err)
	}
	return namespace + "/" + string(data), nil
}

// get returns a recent ranking, one without hosts when there is none.
func (r *rankings) get(key string, c clock.Clock) ranking {
	kept, _ := r.cache(c).Get(key)
	recent, _ := kept.(ranking)
	return recent
}

func (r *rankings) put(key string, of ranking, c clock.Clock) {
	r.cache(c).Set(key, of, rankingTime)
}

func (r *rankings) cache(c clock.Clock) *cache.Expiring {
	r.once.Do(func() { r.kept = cache.NewExpiringWithClock(c) })
	return r.kept
}
