package extensionconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// An extension that is about to start is no reason for a Warning; one that was lost is at
// once, and one that does not come is after a while.
func TestEvents(t *testing.T) {
	lost := errors.New("connection refused")
	many := func(n int) []error { return slices.Repeat([]error{lost}, n) }
	for _, c := range []struct {
		name    string
		results []error
		want    string
	}{
		{"at once", []error{nil, nil, nil}, "Normal"},
		{"about to start", append(many(patience-1), nil, nil), "Normal"},
		{"never", many(3 * patience), "Warning"},
		{"late", append(many(2*patience), nil), "Warning Normal"},
		{"lost", []error{nil, lost, lost, nil}, "Normal Warning Normal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(len(c.results))
			r := &Reconciler{
				Kind: Upstream, Recorder: recorder,
				failures: workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry),
			}
			object := Upstream.New()
			object.SetName("e")
			for _, result := range c.results {
				s := &scope{kind: Upstream, original: object.DeepCopyObject().(Object), object: object, failure: result}
				conditions.Set(object, discovered([]runtimev1.ExtensionHandler{}, result))
				r.report(s)
				r.next("e", result)
			}
			close(recorder.Events)
			var kinds []string
			for event := range recorder.Events {
				kind, _, _ := strings.Cut(event, " ")
				kinds = append(kinds, kind)
			}
			if got := strings.Join(kinds, " "); got != c.want {
				t.Errorf("events %q, want %q", got, c.want)
			}
		})
	}
}
