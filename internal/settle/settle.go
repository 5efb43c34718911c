// Package settle holds back the report of states that pass by themselves: in a
// large pool, most are over before anybody reads them, and each report is a write
// that wakes every controller that watches the object. Controllers import it; it
// imports nothing of this module.
package settle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Delay remembers since when objects are on their way. A manager that starts anew
// begins anew, which only delays what is reported. The zero value is ready for use.
type Delay struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// Wait is how long the report on an object has to wait still; 0 means that it is
// due. What is not on its way is always due. Each report that is due begins another
// wait, so that progress shows once in a while; with a delay of zero, all are due.
func (d *Delay) Wait(object types.NamespacedName, onItsWay bool, delay time.Duration, now time.Time) time.Duration {
	if delay == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !onItsWay {
		delete(d.since, object)
		return 0
	}
	since, waits := d.since[object]
	if waits && now.Sub(since) < delay {
		return delay - now.Sub(since)
	}
	if d.since == nil {
		d.since = map[types.NamespacedName]time.Time{}
	}
	d.since[object] = now
	if waits {
		return 0
	}
	return delay
}
