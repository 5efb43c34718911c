package console

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	livePrefix = "/live"
	// haveParam is the version of the page that a browser has.
	haveParam = "have"
	// calm is the least time between two looks of a page.
	calm = 400 * time.Millisecond
	// heartbeat is how often a stream is written to when nothing changes, to learn that
	// the browser is gone. The page is looked at again, too: a trouble that lasts becomes an
	// error, and what was refused may be allowed by now.
	heartbeat = 20 * time.Second
	// maxStreams is one less than browsers connect to a server at the same time: with one
	// more, no page could be opened.
	maxStreams = 5
)

// stream sends a page whenever it looks different.
func (s *server) stream(w http.ResponseWriter, r *http.Request, p page) {
	replaced, leave := s.streams.enter()
	defer leave()
	have := r.URL.Query().Get(haveParam)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		have = last
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	// A server may bound how long it reads a request; this one lasts.
	_ = control.SetReadDeadline(time.Time{})
	if _, err := fmt.Fprint(w, ": live\n\n"); err != nil || control.Flush() != nil {
		return
	}
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		changed := s.reader.Changed()
		page := s.render(r, p, "")
		if r.Context().Err() != nil {
			return
		}
		if now := page.version(); now != have {
			have = now
			if writeEvent(w, "page", now, s.update(page)) != nil || control.Flush() != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-beat.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil || control.Flush() != nil {
				return
			}
		case <-replaced:
			_ = writeEvent(w, "end", have, []byte("Too many pages of the console are open: this one is not live any more. Load it again."))
			_ = control.Flush()
			return
		case <-r.Context().Done():
			return
		}
		select {
		case <-time.After(calm):
		case <-r.Context().Done():
			return
		}
	}
}

// writeEvent writes one event. Each line of the data becomes one of the event, whatever
// ends it: no text of an object may pass for another field.
func writeEvent(w http.ResponseWriter, name, id string, data []byte) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "event: %s\nid: %s\n", name, id)
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		fmt.Fprintf(&out, "data: %s\n", bytes.TrimRight(line, "\n"))
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}

// streams are those that are open, the oldest first.
type streams struct {
	mu   sync.Mutex
	open []chan struct{}
}

// enter adds a stream; the oldest makes room for it. The channel is closed when the
// stream is to end.
func (s *streams) enter() (replaced <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxStreams {
		close(s.open[0])
		s.open = s.open[1:]
	}
	own := make(chan struct{})
	s.open = append(s.open, own)
	return own, func() { s.leave(own) }
}

func (s *streams) leave(own chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.open {
		if s.open[i] == own {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			return
		}
	}
}
