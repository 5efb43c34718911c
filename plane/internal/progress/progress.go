package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"
)

type state int

const (
	running state = iota
	done
	failed
)

const (
	redrawEvery = 100 * time.Millisecond
	// plainEvery is how long a step keeps silent between two plain lines, but for
	// its end.
	plainEvery = 2 * time.Second
	// worthTelling is how long a step below another takes to get a plain line.
	worthTelling = 100 * time.Millisecond
	// plainWidth is where the reason in a plain line is cut.
	plainWidth = 160
)

// Tree is the steps of one command. Its methods may be called concurrently.
type Tree struct {
	mu    sync.Mutex
	out   io.Writer
	size  func() (columns, rows int) // nil: plain lines, otherwise redraw in place
	now   func() time.Time
	start time.Time
	roots []*Step
	notes []string // not drawn yet
	lines int      // lines drawn last
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

	said   time.Time // of the last plain line
	unsaid bool      // the detail has changed since
}

// New returns a tree that writes to out, redrawn in place when out is a terminal.
func New(out *os.File) *Tree {
	t := newTree(out, time.Now)
	fd, every := int(out.Fd()), plainEvery/4
	if term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		every = redrawEvery
		t.size = func() (columns, rows int) {
			if columns, rows, err := term.GetSize(fd); err == nil && columns > 0 && rows > 0 {
				return columns, rows
			}
			return 80, 24
		}
	}
	t.ended.Go(func() { t.refresh(every) })
	return t
}

func newTree(out io.Writer, now func() time.Time) *Tree {
	return &Tree{out: out, now: now, start: now(), stop: make(chan struct{})}
}

// Step starts a step at the top level.
func (t *Tree) Step(name string) *Step { return t.add(nil, name) }

// Step starts a step below s.
func (s *Step) Step(name string) *Step { return s.tree.add(s, name) }

// Note shows a line that stays, above the steps, and is not cut. Without a terminal it is written
// immediately, so that no later line comes before it.
func (t *Tree) Note(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = oneLine(text)
	if t.size == nil {
		fmt.Fprintln(t.out, text)
		return
	}
	t.notes = append(t.notes, text)
}

// Pending are the steps that go on, each with what it waits for; a step is left out
// when one below it tells more.
func (t *Tree) Pending() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pending []string
	var walk func([]*Step)
	walk = func(steps []*Step) {
		for _, s := range steps {
			if s.state == running && !s.childRuns() {
				pending = append(pending, s.plain())
			}
			walk(s.children)
		}
	}
	walk(t.roots)
	return pending
}

// Elapsed is the time since the tree was made.
func (t *Tree) Elapsed() time.Duration { return t.now().Sub(t.start) }

// Close shows the last state, which stays on the screen.
func (t *Tree) Close() {
	close(t.stop)
	t.ended.Wait()
	t.show()
}

func (t *Tree) add(parent *Step, name string) *Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	s := &Step{tree: t, parent: parent, name: name, start: now, said: now}
	if parent == nil {
		t.roots = append(t.roots, s)
	} else {
		parent.children = append(parent.children, s)
	}
	return s
}

// Waitf says what the step waits for now and why.
func (s *Step) Waitf(format string, args ...any) { s.set(running, fmt.Sprintf(format, args...)) }

// Donef ends the step; detail says what came of it.
func (s *Step) Donef(format string, args ...any) { s.set(done, fmt.Sprintf(format, args...)) }

// Fail ends the step. Why it failed is for the command to say, once.
func (s *Step) Fail() { s.set(failed, "failed") }

func (s *Step) set(to state, detail string) {
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	detail = oneLine(detail)
	if s.state == to && s.detail == detail {
		return
	}
	s.state, s.detail, s.unsaid = to, detail, true
	if to == running {
		return
	}
	s.end = t.now()
	// What was there already is told by the step above.
	if to == failed || s.parent == nil || s.end.Sub(s.start) >= worthTelling {
		t.say(s)
	}
}

func (t *Tree) refresh(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			t.show()
		}
	}
}

func (t *Tree) show() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size != nil {
		t.draw()
		return
	}
	for _, s := range t.roots {
		t.sayDue(s)
	}
}

// oneLine keeps control characters of others' messages off the terminal.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// cut shortens s to columns, counting a rune as one.
func cut(s string, columns int) string {
	if runes := []rune(s); len(runes) > columns {
		return string(runes[:max(0, columns-1)]) + "…"
	}
	return s
}
