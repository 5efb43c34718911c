package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// TestSteps plays what happens to an operation second by second, and reads what is kept of
// its steps: "name begin-end", and no end where none is known.
func TestSteps(t *testing.T) {
	begin := func(name string) func(*journal.State, time.Time) {
		return func(s *journal.State, now time.Time) { step(s, name, "boot-1", now) }
	}
	done := func(s *journal.State, now time.Time) { stepDone(s.Operation, now) }
	failed := &operation.Error{Reason: operation.ReasonStepFailed}
	tryAgain := func(s *journal.State, now time.Time) { retry(s, failed, now) }
	wait := func(s *journal.State, now time.Time) { postpone(s, failed, now) }
	for name, c := range map[string]struct {
		events []func(*journal.State, time.Time)
		want   []string
	}{
		"one after the other":       {[]func(*journal.State, time.Time){begin("a"), done, begin("b"), done, succeed}, []string{"a 0-1", "b 2-3"}},
		"without a word of its end": {[]func(*journal.State, time.Time){begin("a"), begin("b"), succeed}, []string{"a 0-1", "b 1-2"}},
		"a wait is one step":        {[]func(*journal.State, time.Time){begin("a"), wait, begin("a"), wait, begin("a"), begin("b")}, []string{"a 0-5", "b 5-"}},
		"tried again after a reset": {[]func(*journal.State, time.Time){begin("a"), tryAgain, begin("reset"), done, begin("a"), done}, []string{"a 0-1", "reset 2-3", "a 4-5"}},
		"cut short by a crash":      {[]func(*journal.State, time.Time){begin("a"), interrupted, begin("b"), done}, []string{"a 0-", "b 2-3"}},
		"done by the next boot":     {[]func(*journal.State, time.Time){begin("reboot"), interrupted, succeed}, []string{"reboot 0-2"}},
		"refused for good":          {[]func(*journal.State, time.Time){begin("a"), func(s *journal.State, now time.Time) { fail(s, "No", "no", now) }}, []string{"a 0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, start := journal.State{Operation: &journal.Operation{}}, time.Unix(0, 0)
			for i, event := range c.events {
				event(&s, start.Add(time.Duration(i)*time.Second))
			}
			var got []string
			for _, s := range s.Operation.Steps {
				text := fmt.Sprintf("%s %d-", s.Name, s.Start.Unix())
				if !s.End.IsZero() {
					text += fmt.Sprint(s.End.Unix())
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("steps %q, want %q", got, c.want)
			}
		})
	}
}

// What is reported in the status of a Host is bounded: the last steps are kept.
func TestStepsAreBounded(t *testing.T) {
	s := journal.State{Operation: &journal.Operation{}}
	for i := range 3 * journal.MaxSteps {
		step(&s, fmt.Sprint(i), "boot-1", time.Unix(int64(i), 0))
	}
	if kept := s.Operation.Steps; len(kept) != journal.MaxSteps || kept[0].Name != fmt.Sprint(2*journal.MaxSteps) {
		t.Errorf("%d steps kept from %s on", len(kept), kept[0].Name)
	}
}
