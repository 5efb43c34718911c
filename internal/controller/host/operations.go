package host

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// operations tells of each operation of a host when it ends, once. What ended before this
// process saw the host is not told: another process did, and a histogram begins anew with
// its process. The zero value is ready for use.
type operations struct {
	mu sync.Mutex
	// last is the last operation of each host, with its end, empty until it has ended.
	last map[types.NamespacedName]string
}

// ended looks at the report of a host and says whether the end of its operation is news.
func (o *operations) ended(key types.NamespacedName, op *infrav1.ObservedOperation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.last[key]
	if o.last == nil {
		o.last = map[types.NamespacedName]string{}
	}
	// one that failed and is tried again ends once more
	if op == nil || op.State == infrav1.OperationRunning {
		o.last[key] = ""
		return false
	}
	now := op.ID + "/" + string(op.State)
	o.last[key] = now
	return known && before != now
}

// count counts an operation that has ended; the exemplar names its trace.
func count(op *infrav1.ObservedOperation, exemplar map[string]string) {
	if !op.StartTime.IsZero() && !op.CompletionTime.IsZero() {
		tracing.Observe(operationSeconds.WithLabelValues(string(op.Phase), string(op.State)), op.CompletionTime.Sub(op.StartTime.Time), exemplar)
	}
	if op.State == infrav1.OperationFailed {
		operationFailures.WithLabelValues(string(op.Phase), op.Step).Inc()
	}
}

// forget is for a host that is gone.
func (o *operations) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.last, key)
}
