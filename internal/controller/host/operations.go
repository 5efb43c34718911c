package host

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// operations counts each operation of a host when it ends, once. What ended before this
// process saw the host is not counted: another process did, and a histogram begins anew
// with its process. The zero value is ready for use.
type operations struct {
	mu sync.Mutex
	// ended is the last operation of each host, with its end, empty until it has ended.
	ended map[types.NamespacedName]string
}

// note looks at the report of a host and counts an operation whose end is news.
func (o *operations) note(key types.NamespacedName, op *infrav1.ObservedOperation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.ended[key]
	if o.ended == nil {
		o.ended = map[types.NamespacedName]string{}
	}
	// one that failed and is tried again ends once more
	if op == nil || op.State == infrav1.OperationRunning {
		o.ended[key] = ""
		return
	}
	now := op.ID + "/" + string(op.State)
	o.ended[key] = now
	if !known || before == now {
		return
	}
	if !op.StartTime.IsZero() && !op.CompletionTime.IsZero() {
		operationSeconds.WithLabelValues(string(op.Phase), string(op.State)).Observe(op.CompletionTime.Sub(op.StartTime.Time).Seconds())
	}
	if op.State == infrav1.OperationFailed {
		operationFailures.WithLabelValues(string(op.Phase), op.Step).Inc()
	}
}

// forget is for a host that is gone.
func (o *operations) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ended, key)
}
