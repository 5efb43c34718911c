package extension

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// tally is what has become of the calls of one handler.
type tally struct {
	calls, failed, blocked atomic.Int64
	// last and lastFailure are times in nanoseconds, zero for none.
	last, lastFailure atomic.Int64
}

// count adds a call that was answered.
func (t *tally) count(code int, response hooksv1.ResponseObject) {
	now := time.Now().UnixNano()
	t.calls.Add(1)
	t.last.Store(now)
	switch {
	case code != http.StatusOK || response.GetStatus() == hooksv1.ResponseStatusFailure:
		t.failed.Add(1)
		t.lastFailure.Store(now)
	case retryAfter(response) != 0:
		t.blocked.Add(1)
	}
}

// serveStatus tells people what the server serves and how it fares, as the z-pages of
// Kubernetes' components do. Texts of errors are in the log, not here.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	handlers := maps.Clone(s.handlers)
	s.mu.Unlock()
	var page bytes.Buffer
	fmt.Fprintf(&page, "extension statusz\nWarning: This endpoint is not meant to be machine parseable.\n\nStarted: %s\nUp: %s\nReady: %s\nRunning handlers: %d of %d\n\n",
		s.started.UTC().Format(time.RFC3339), time.Since(s.started).Truncate(time.Second), s.readiness(r), len(s.slots), cap(s.slots))
	writeHandlers(&page, handlers)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page.Bytes())
}

func (s *Server) readiness(r *http.Request) string {
	if err := s.Check(r); err != nil {
		return err.Error()
	}
	return "ok"
}

func writeHandlers(w io.Writer, handlers map[string]*handler) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HANDLER\tHOOK\tVERSION\tTIMEOUT\tFAILURE POLICY\tCALLS\tFAILED\tBLOCKED\tLAST CALL\tLAST FAILURE")
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		h := handlers[name]
		version := h.definition.Name.Version
		if h.definition.Meta.Deprecated() {
			version += " (deprecated)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", name, h.definition.Name.Hook, version, h.timeout, h.policy,
			h.tally.calls.Load(), h.tally.failed.Load(), h.tally.blocked.Load(), ago(h.tally.last.Load()), ago(h.tally.lastFailure.Load()))
	}
	_ = table.Flush()
}

// ago is how long a time lies back, in the way of kubectl.
func ago(nanoseconds int64) string {
	if nanoseconds == 0 {
		return "never"
	}
	return time.Since(time.Unix(0, nanoseconds)).Truncate(time.Second).String() + " ago"
}
