package view

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/status"
)

// A gap between two renewals is shown for as long as the renewals around it are kept, and one that lasts from when
// the agent counts as away.
func TestHeartbeats(t *testing.T) {
	begin := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	touched := 0
	h := &Heartbeats{Touch: func() { touched++ }}
	key := client.ObjectKey{Namespace: "prod", Name: "h1"}
	beat := func(second int) {
		h.Set(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "h1"}, Spec: coordinationv1.LeaseSpec{
			RenewTime: ptr.To(metav1.NewMicroTime(begin.Add(time.Duration(second) * time.Second))), LeaseDurationSeconds: ptr.To(int32(40)),
		}})
	}
	if h.Of(key, begin) != nil {
		t.Error("a heartbeat of nobody")
	}
	beat(0)
	if h.Of(key, begin); touched != 0 {
		t.Error("told of what nobody looked at")
	}
	beat(10)
	beat(10) // anything else of the Lease changed
	beat(100)
	beat(110)
	if touched != 3 {
		t.Errorf("told %d times of 3 renewals", touched)
	}
	v := h.Of(key, begin.Add(115*time.Second))
	if len(v.Beats) != 3 || v.Missed != 1 || v.Beats[1].Role != status.Bad || v.Beats[1].Height != beatHeight || v.Beats[0].Role != status.OK || v.Beats[0].Height >= beatHeight || !v.Last.Equal(begin.Add(110*time.Second)) {
		t.Errorf("%+v", v)
	}
	if v := h.Of(key, begin.Add(151*time.Second)); len(v.Beats) != 4 || v.Missed != 2 || v.Beats[3].Role != status.Bad {
		t.Errorf("it is away: %+v", v)
	}
	for i := range 200 {
		beat(120 + 10*i)
	}
	if v := h.Of(key, begin.Add(2111*time.Second)); len(v.Beats) != maxBeats || v.Missed != 0 {
		t.Errorf("%d beats, %d missed", len(v.Beats), v.Missed)
	}
	h.Delete(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "h1"}})
	if h.Of(key, begin) != nil {
		t.Error("a heartbeat of a Lease that is gone")
	}
}
