package hostlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

const (
	// atOnce bounds the requests that are answered at a time; the manager names no more.
	atOnce = 4
	// writeEvery is the least time between two answers to a request that follows a log.
	writeEvery = time.Second
	// maxFollowed is after how many bytes a request that follows a log ends.
	maxFollowed = 4 << 20
	// rights is how long the API server may need to know that the agent may read a request.
	rights = 30 * time.Second
)

// Requests are the HostLogRequests of a management cluster.
type Requests interface {
	GetLogRequest(ctx context.Context, namespace, name string) (*infrav1.HostLogRequest, error)
	// PatchLogRequest writes the fields of the status that are set.
	PatchLogRequest(ctx context.Context, namespace, name string, status infrav1.HostLogRequestStatus) error
}

// Options of an Answerer. All are required.
type Options struct {
	Namespace, HostName string
	Requests            Requests
	// Read calls each with the lines of a log: Journal.
	Read func(ctx context.Context, q Query, each func(line []byte, more int)) error
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
}

// Answerer answers the HostLogRequests that the Host names.
type Answerer struct {
	options Options
	// maxFollowed is that, but in tests.
	maxFollowed int

	mu sync.Mutex
	// named are the requests on the Host, and enrolled is when it was created.
	named    []string
	enrolled time.Time
	// changed is signalled when named changes.
	changed chan struct{}
}

// New returns an Answerer of a Host that names no request.
func New(o Options) *Answerer {
	return &Answerer{options: o, maxFollowed: maxFollowed, changed: make(chan struct{}, 1)}
}

// Served is called with each version of the Host. It does not block.
func (a *Answerer) Served(h *infrav1.Host) {
	var named []string
	if text := h.Annotations[infrav1.LogRequestsAnnotation]; text != "" {
		named = strings.Split(text, ",")
	}
	named = named[:min(len(named), atOnce)]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enrolled = h.CreationTimestamp.Time
	if slices.Equal(named, a.named) {
		return
	}
	a.named = named
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Run answers until the context ends, and returns when nothing is read any more. An answer ends when the
// Host names its request no longer.
func (a *Answerer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	// A request stays here while the Host names it: each is answered once.
	begun := map[string]context.CancelFunc{}
	for {
		a.mu.Lock()
		named, enrolled := a.named, a.enrolled
		a.mu.Unlock()
		for name, end := range begun {
			if !slices.Contains(named, name) {
				end()
				delete(begun, name)
			}
		}
		for _, name := range named {
			if begun[name] != nil {
				continue
			}
			each, end := context.WithCancel(ctx)
			begun[name] = end
			running.Go(func() { a.answer(each, name, enrolled) })
		}
		select {
		case <-ctx.Done():
			for _, end := range begun {
				end()
			}
			return
		case <-a.changed:
		}
	}
}

// answer answers one request.
func (a *Answerer) answer(ctx context.Context, name string, enrolled time.Time) {
	log := a.options.Log.With("request", name)
	request, err := a.get(ctx, name)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		log.Warn("cannot read a request for a log", "err", err)
		return
	case request.Spec.HostName != a.options.HostName || request.Status.CompletionTime != nil:
		return
	}
	log.Info("a log is read", "unit", request.Spec.Unit, "requestedBy", request.Spec.RequestedBy)
	if request.Status.FirstLine > 0 {
		err = a.write(ctx, name, infrav1.HostLogRequestStatus{}, "the agent started again while it answered: create another request", true)
	} else {
		err = a.read(ctx, request, enrolled)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot answer a request for a log", "err", err)
	}
}

// get reads a request. The right to it comes a moment after its name.
func (a *Answerer) get(ctx context.Context, name string) (request *infrav1.HostLogRequest, err error) {
	err = a.patiently(ctx, apierrors.IsNotFound, func(ctx context.Context) (err error) {
		request, err = a.options.Requests.GetLogRequest(ctx, a.options.Namespace, name)
		return err
	})
	return request, err
}

// patiently tries again what fails, unless its error is final.
func (a *Answerer) patiently(ctx context.Context, final func(error) bool, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, rights)
	defer cancel()
	again := backoff.Backoff{}
	for {
		err := try(ctx)
		if err == nil || final(err) || !backoff.Sleep(ctx, again.Next(a.options.Now())) {
			return err
		}
	}
}

// answered says whether an error is the API server's.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// query is what a request needs. What the host did for another namespace is not shown.
func (a *Answerer) query(spec infrav1.HostLogRequestSpec, enrolled time.Time) Query {
	since := enrolled
	if spec.SinceSeconds > 0 {
		if wanted := a.options.Now().Add(-time.Duration(spec.SinceSeconds) * time.Second); wanted.After(since) {
			since = wanted
		}
	}
	return Query{
		Unit: spec.Unit, Since: since, Follow: ptr.Deref(spec.Follow, false),
		Lines: min(cmp.Or(spec.Lines, infrav1.HostLogDefaultLines), infrav1.HostLogMaxLines),
	}
}

// errFollowed ends a request whose log has too much.
var errFollowed = fmt.Errorf("%d MiB were shown: create another request", maxFollowed>>20)

// read reads the log of a request, and writes what it has: at the end, and before while it follows the log.
func (a *Answerer) read(ctx context.Context, request *infrav1.HostLogRequest, enrolled time.Time) error {
	limit := time.Duration(min(cmp.Or(request.Spec.TimeLimitSeconds, infrav1.HostLogDefaultTimeLimit), infrav1.HostLogMaxTimeLimit)) * time.Second
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reading, cancel := context.WithTimeoutCause(reading, limit, fmt.Errorf("the time limit of %s is over", limit))
	defer cancel()
	var mu sync.Mutex
	lines := &answer{}
	ended := make(chan error, 1)
	query := a.query(request.Spec, enrolled)
	go func() {
		ended <- a.options.Read(reading, query, func(line []byte, more int) {
			mu.Lock()
			defer mu.Unlock()
			if !query.Follow {
				lines.keep(line, more)
				return
			}
			if lines.add(line, more); lines.total > a.maxFollowed {
				stop(errFollowed)
			}
		})
	}()
	flush := func(message string, last bool) error {
		mu.Lock()
		first, text, n := lines.pending()
		mu.Unlock()
		if n == 0 && !last {
			return nil
		}
		status := infrav1.HostLogRequestStatus{}
		if n > 0 {
			status.FirstLine, status.Text = first, text
		}
		err := a.write(ctx, request.Name, status, message, last)
		if err == nil {
			mu.Lock()
			lines.drop(first, n)
			mu.Unlock()
		}
		return err
	}
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			message := ""
			if err != nil {
				message = lines.redact.Text(err.Error())
			}
			lines.process()
			return a.patiently(ctx, answered, func(context.Context) error { return flush(message, true) })
		case <-ticker.C:
			if !query.Follow {
				continue
			}
			if err := flush("", false); apierrors.IsNotFound(err) {
				stop(err)
			}
		}
	}
}

// maxMessage is how long a message may be, in bytes.
const maxMessage = 1024

func (a *Answerer) write(ctx context.Context, name string, status infrav1.HostLogRequestStatus, message string, last bool) error {
	status.Message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	if last {
		status.CompletionTime = ptr.To(metav1.NewTime(a.options.Now()))
	}
	return a.options.Requests.PatchLogRequest(ctx, a.options.Namespace, name, status)
}
