package step_test

import (
	"testing"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

func TestWindow(t *testing.T) {
	night := lifecyclev1.WindowStep{Schedule: "0 22 * * *", TimeZone: "Europe/Berlin", DurationSeconds: 3600}
	for _, c := range []struct {
		name string
		mode lifecyclev1.PolicyMode
		now  string
		want step.Result
	}{
		{"open", lifecyclev1.ModeEnforce, "2026-03-01T21:30:00Z", step.Result{Done: true, Message: "open until 2026-03-01 23:00:00 CET"}},
		{"opens soon", lifecyclev1.ModeEnforce, "2026-03-01T20:59:00Z", step.Result{Message: "opens at 2026-03-01 22:00:00 CET", After: time.Minute}},
		{"opens later", lifecyclev1.ModeEnforce, "2026-03-01T22:00:00Z", step.Result{Message: "opens at 2026-03-02 22:00:00 CET", After: 10 * time.Minute}},
		{"audit", lifecyclev1.ModeAudit, "2026-03-01T22:00:00Z", step.Result{Done: true, Message: "would wait: the window opens at 2026-03-02 22:00:00 CET"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			run := &lifecyclev1.LifecycleRun{Spec: lifecyclev1.LifecycleRunSpec{Mode: c.mode}}
			got, err := execute(t, nil, step.Input{Run: run, Step: &lifecyclev1.Step{Window: &night}, Now: now})
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestWindowsThatCannotBeReadAreNotRepeated(t *testing.T) {
	s := &lifecyclev1.Step{Window: &lifecyclev1.WindowStep{Schedule: "at night", DurationSeconds: 60}}
	_, err := execute(t, nil, step.Input{Run: &lifecyclev1.LifecycleRun{}, Step: s})
	if !step.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}
