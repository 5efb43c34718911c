package supervisor

import "time"

// A plane is started again after minPause, then twice as long each time, up to maxPause. Once it has run for
// calm it begins anew. There is no last time: without the plane nobody repairs the clusters of its hosts.
const (
	minPause, maxPause = 500 * time.Millisecond, time.Minute
	calm               = 10 * time.Minute
)

// backoff is the pause before the next start; the zero value is that of a plane that has not crashed.
type backoff struct{ pause time.Duration }

// next is the pause after a plane has run so long.
func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= calm || b.pause == 0 {
		b.pause = minPause
		return b.pause
	}
	b.pause = min(2*b.pause, maxPause)
	return b.pause
}
