package progress

import (
	"fmt"
	"io"
	"strings"
)

const nameWidth = 22

// draw replaces the lines drawn before. No line may wrap and no more lines be
// drawn than the terminal has, since the cursor could not go back to the first.
func (t *Tree) draw() {
	columns, rows := t.size()
	lines := t.collect(columns, func(s *Step) bool { return s.state == done })
	if len(lines) >= rows {
		lines = t.collect(columns, func(*Step) bool { return true })
	}
	// What is going on is at the end.
	lines = lines[max(0, len(lines)-rows+1):]

	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", min(t.lines, rows-1))
	}
	b.WriteString("\r")
	for _, note := range t.notes {
		b.WriteString("\x1b[J" + note + "\n")
	}
	t.notes = nil
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	t.lines = len(lines)
	io.WriteString(t.out, b.String()) //nolint:errcheck // a closed terminal must not stop the work
}

// collect returns the lines of all steps; those below a folded step are left out
// unless they failed.
func (t *Tree) collect(columns int, fold func(*Step) bool) []string {
	var lines []string
	var walk func(s *Step, depth int, folded bool)
	walk = func(s *Step, depth int, folded bool) {
		if !folded || s.state == failed {
			lines = append(lines, cut(t.line(s, depth), columns))
		}
		for _, c := range s.children {
			walk(c, depth+1, folded || fold(s))
		}
	}
	for _, s := range t.roots {
		walk(s, 0, false)
	}
	return lines
}

func (t *Tree) line(s *Step, depth int) string {
	mark, end := "…", t.now()
	switch s.state {
	case done:
		mark, end = "✓", s.end
	case failed:
		mark, end = "✗", s.end
	case running:
	}
	indent := strings.Repeat("  ", depth)
	return strings.TrimRight(fmt.Sprintf("%s%s %-*s %6.1fs  %s", indent, mark, nameWidth-len(indent), cut(s.name, nameWidth-len(indent)), end.Sub(s.start).Seconds(), s.detail), " ")
}
