package progress

import "fmt"

// sayDue tells what steps wait for that have been silent long enough. A parent
// says nothing of its own while a step below it tells more.
func (t *Tree) sayDue(s *Step) {
	if s.state == running && s.unsaid && t.now().Sub(s.said) >= plainEvery && !s.childRuns() {
		t.say(s)
	}
	if s.state != running {
		return // what goes on below it now is how it is given up
	}
	for _, c := range s.children {
		t.sayDue(c)
	}
}

func (s *Step) childRuns() bool {
	for _, c := range s.children {
		if c.state == running {
			return true
		}
	}
	return false
}

func (t *Tree) say(s *Step) {
	if t.size != nil {
		return
	}
	s.said, s.unsaid = t.now(), false
	fmt.Fprintf(t.out, "%7.1fs  %s\n", t.now().Sub(t.start).Seconds(), s.plain())
}

// path is the step's name with those above it.
func (s *Step) path() string {
	if s.parent == nil {
		return s.name
	}
	return s.parent.path() + "/" + s.name
}

func (s *Step) plain() string {
	took := s.end.Sub(s.start).Seconds()
	switch s.state {
	case done:
		detail := s.detail
		if detail != "" {
			detail = ": " + detail
		}
		return fmt.Sprintf("%s: done in %.1fs%s", s.path(), took, cut(detail, plainWidth))
	case failed:
		return fmt.Sprintf("%s: failed after %.1fs", s.path(), took)
	default:
		return fmt.Sprintf("%s: %s", s.path(), cut(s.detail, plainWidth))
	}
}
