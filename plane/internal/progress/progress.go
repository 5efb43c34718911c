package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

type state int

const (
	running state = iota
	done
	failed
)

// Tree is the steps of one command. Its methods may be called concurrently.
type Tree struct {
	mu    sync.Mutex
	out   io.Writer
	live  bool // redraw in place
	width int
	now   func() time.Time
	start time.Time
	roots []*Step
	lines int // lines drawn last
	stop  chan struct{}
	ended sync.WaitGroup
}

// Step is one thing that is waited for.
type Step struct {
	tree     *Tree
	parent   *Step
	children []*Step
	name     string
	detail   string
	state    state
	start    time.Time
	end      time.Time
}

// New returns a tree that writes to out, redrawn in place when out is a terminal.
func New(out *os.File) *Tree {
	t := newTree(out, time.Now)
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && os.Getenv("TERM") != "dumb" {
		t.live, t.width = true, width
		t.ended.Go(t.redrawLoop)
	}
	return t
}

func newTree(out io.Writer, now func() time.Time) *Tree {
	return &Tree{out: out, now: now, start: now(), stop: make(chan struct{})}
}

// Step starts a step at the top level.
func (t *Tree) Step(name string) *Step { return t.add(nil, name) }

// Step starts a step below s.
func (s *Step) Step(name string) *Step { return s.tree.add(s, name) }

// Elapsed is the time since the tree was made.
func (t *Tree) Elapsed() time.Duration { return t.now().Sub(t.start) }

// Close draws the last state and stops redrawing.
func (t *Tree) Close() {
	close(t.stop)
	t.ended.Wait()
	if t.live {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.draw()
	}
}

func (t *Tree) add(parent *Step, name string) *Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Step{tree: t, parent: parent, name: name, start: t.now()}
	if parent == nil {
		t.roots = append(t.roots, s)
	} else {
		parent.children = append(parent.children, s)
	}
	return s
}

// Wait says what the step waits for now and why.
func (s *Step) Wait(format string, args ...any) { s.set(running, fmt.Sprintf(format, args...)) }

// Done ends the step; detail says what came of it.
func (s *Step) Done(format string, args ...any) { s.set(done, fmt.Sprintf(format, args...)) }

// Fail ends the step with an error.
func (s *Step) Fail(err error) { s.set(failed, err.Error()) }

func (s *Step) set(to state, detail string) {
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.state == to && s.detail == detail {
		return
	}
	s.state, s.detail = to, detail
	if to != running {
		s.end = t.now()
	}
	if !t.live {
		fmt.Fprintf(t.out, "%7.1fs  %s\n", t.now().Sub(t.start).Seconds(), s.plain())
	}
}

// path is the step's name with those above it.
func (s *Step) path() string {
	if s.parent == nil {
		return s.name
	}
	return s.parent.path() + "/" + s.name
}

func (s *Step) plain() string {
	switch s.state {
	case done:
		return fmt.Sprintf("%s: done in %.1fs%s", s.path(), s.end.Sub(s.start).Seconds(), tail(s.detail))
	case failed:
		return fmt.Sprintf("%s: failed%s", s.path(), tail(s.detail))
	default:
		return fmt.Sprintf("%s: %s", s.path(), s.detail)
	}
}

func tail(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

func (t *Tree) redrawLoop() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			t.mu.Lock()
			t.draw()
			t.mu.Unlock()
		}
	}
}

// draw replaces the lines drawn before. Each line is cut to the width of the
// terminal, since a wrapped line would break the count.
func (t *Tree) draw() {
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.lines)
	}
	t.lines = 0
	for _, s := range t.roots {
		t.drawStep(&b, s, 0)
	}
	io.WriteString(t.out, b.String()) //nolint:errcheck // a closed terminal must not stop the work
}

func (t *Tree) drawStep(b *strings.Builder, s *Step, depth int) {
	mark, end := "…", t.now()
	switch s.state {
	case done:
		mark, end = "✓", s.end
	case failed:
		mark, end = "✗", s.end
	case running:
	}
	line := fmt.Sprintf("%s%s %-*s %5.1fs  %s", strings.Repeat("  ", depth), mark, 28-2*depth, s.name, end.Sub(s.start).Seconds(), oneLine(s.detail))
	if runes := []rune(line); len(runes) > t.width && t.width > 0 {
		line = string(runes[:t.width-1]) + "…"
	}
	fmt.Fprintf(b, "\r\x1b[2K%s\n", line)
	t.lines++
	for _, c := range s.children {
		t.drawStep(b, c, depth+1)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
