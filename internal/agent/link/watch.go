package link

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

// watchTimeout is the least time after which the server ends a watch; up to as
// much is added, so that agents do not come back together. With thousands of agents
// each watch that begins anew counts; a connection that broke shows sooner by its pings.
const watchTimeout = 30 * time.Minute

// steadyWatch is how long a watch lasts that counts as a success. After a shorter one the next
// waits as after a failure: a server that accepts each watch and ends it would be asked without
// a pause, by all agents.
const steadyWatch = time.Minute

// HostWatches streams one Host from its current state on.
type HostWatches interface {
	WatchHost(ctx context.Context, namespace, name string, timeout time.Duration) (watch.Interface, error)
}

// watcher follows one Host. It is an informer for a single object: no list, no
// cache, one event per change.
type watcher struct {
	hosts           HostWatches
	namespace, name string
	log             *slog.Logger
	// changed is called with each version, and with nil when the Host is deleted.
	changed func(*infrav1.Host)
	// failed is called with each error.
	failed func(error)

	uid types.UID
}

// run blocks until the context ends.
func (w *watcher) run(ctx context.Context) {
	outage, failing := backoff.Backoff{}, false
	for {
		began := time.Now()
		err := w.follow(ctx, func() {
			if failing {
				w.log.Info("watching the Host again")
			}
			failing = false
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.failed(err)
		}
		if time.Since(began) >= steadyWatch {
			outage.Reset()
			failing = false
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = fmt.Errorf("the server ended the watch in less than %s", steadyWatch)
		}
		if !failing {
			w.log.Warn("cannot watch the Host, trying again", "err", err)
		}
		failing = true
		if !backoff.Sleep(ctx, outage.Next(time.Now())) {
			return
		}
	}
}

// follow serves one watch until the server ends it. shown is called once the server has shown
// the Host.
func (w *watcher) follow(ctx context.Context, shown func()) error {
	stream, err := w.hosts.WatchHost(ctx, w.namespace, w.name, watchTimeout+rand.N(watchTimeout))
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		switch object := event.Object.(type) {
		case *infrav1.Host:
			shown()
			w.handle(event.Type, object)
		default:
			return apierrors.FromObject(event.Object)
		}
	}
	return nil
}

func (w *watcher) handle(kind watch.EventType, host *infrav1.Host) {
	if kind == watch.Deleted {
		w.log.Warn("the Host was deleted; what is on this machine stays as it is. To use it again, enroll it anew", "uid", host.UID)
		w.changed(nil)
		return
	}
	if w.uid != host.UID {
		w.log.Info("found the Host", "uid", host.UID, "claimGeneration", host.Spec.ClaimGeneration)
		w.uid = host.UID
	}
	w.changed(host)
}
