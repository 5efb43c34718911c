package link

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// tooMany watches hold the test up that counts them.
const tooMany = 1000

// watches is a server whose watches last for a while and then end.
type watches struct {
	asked int
	lasts time.Duration
	// refuse is the answer to each request, host is shown by each watch, and failure ends it.
	refuse  error
	host    *infrav1.Host
	failure *metav1.Status
}

func (w *watches) WatchHost(ctx context.Context, _, _ string, _ time.Duration) (watch.Interface, error) {
	if w.asked++; w.asked > tooMany {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w.refuse != nil {
		return nil, w.refuse
	}
	stream := watch.NewFakeWithChanSize(2, false)
	if w.host != nil {
		stream.Add(w.host)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(w.lasts):
		}
		if w.failure != nil {
			stream.Error(w.failure)
		}
		stream.Stop()
	}()
	return stream, nil
}

// TestWatchesThatEndAtOnce: a server that accepts each watch and ends it is asked no more often
// than one that refuses it, and one that ends it after its time is asked again without a wait.
func TestWatchesThatEndAtOnce(t *testing.T) {
	const while = 30 * time.Minute
	host := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	failure := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd is away"}
	run := func(t *testing.T, w *watches) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), while)
			defer cancel()
			(&watcher{hosts: w, namespace: "ns", name: "host-1", log: slog.New(slog.DiscardHandler), changed: func(*infrav1.Host) {}, failed: func(error) {}}).run(ctx)
			synctest.Wait()
		})
	}
	refused := &watches{refuse: errors.New("refused")}
	run(t, refused)
	for name, w := range map[string]*watches{
		"with an error":                    {failure: failure},
		"with an error after the Host":     {failure: failure, host: host},
		"without a word":                   {},
		"without a word but with the Host": {host: host},
		"after a second":                   {host: host, lasts: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, w)
			if w.asked > 2*refused.asked {
				t.Errorf("%d watches in %s, of a server that refuses them %d", w.asked, while, refused.asked)
			}
		})
	}
	t.Run("in time", func(t *testing.T) {
		w := &watches{host: host, lasts: 5 * time.Minute}
		run(t, w)
		if w.asked < 6 {
			t.Errorf("%d watches in %s, want one every 5 minutes", w.asked, while)
		}
	})
}
