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

// Spacing is the mean time between two reports of all objects on their way: the more
// there are, the longer each waits. The more they are, the longer they all take, too,
// since there is one API server for all.
const Spacing = 200 * time.Millisecond

// Delay remembers since when objects are on their way. A manager that starts anew
// begins anew, which only delays what is reported. The zero value is ready for use.
type Delay struct {
	mu       sync.Mutex
	onTheWay map[types.NamespacedName]wait
}

type wait struct {
	since time.Time
	// length is the longest that any number of objects asked for meanwhile.
	length time.Duration
}

// Wait is how long the report on an object has to wait still; 0 means that it is
// due. What is not on its way is always due. Each report that is due begins another
// wait, so that progress shows once in a while; with a delay of zero, all are due.
func (d *Delay) Wait(object types.NamespacedName, inTransition bool, delay time.Duration, now time.Time) time.Duration {
	if delay == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !inTransition {
		delete(d.onTheWay, object)
		return 0
	}
	w, waits := d.onTheWay[object]
	if !waits {
		w.since = now
	}
	w.length = max(w.length, delay, time.Duration(len(d.onTheWay))*Spacing)
	left := w.length - now.Sub(w.since)
	if left <= 0 {
		w, left = wait{since: now}, 0
	}
	if d.onTheWay == nil {
		d.onTheWay = map[types.NamespacedName]wait{}
	}
	d.onTheWay[object] = w
	return left
}
