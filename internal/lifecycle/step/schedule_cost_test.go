package step

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// counted counts how often a schedule is asked.
type counted struct {
	cron.Schedule
	asked int
}

func (c *counted) Next(t time.Time) time.Time {
	c.asked++
	return c.Schedule.Next(t)
}

// A policy is admitted within seconds, however often its window opens.
func TestPermanentLooksAtSoManyOpenings(t *testing.T) {
	w, err := ParseWindow(lifecyclev1.WindowStep{Schedule: "* * * * *", DurationSeconds: 60})
	if err != nil {
		t.Fatal(err)
	}
	schedule := &counted{Schedule: w.schedule}
	w.schedule = schedule
	if !w.Permanent(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 366*24*time.Hour) {
		t.Error("every minute of every hour is always")
	}
	if schedule.asked > maxOpenings+10 {
		t.Errorf("the schedule was asked %d times", schedule.asked)
	}
}
