package step_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// TestAtAgreesWithCountingMinutes compares windows with the slow way: to go through
// the minutes that the clocks of the zone show, and to open at each that the schedule
// names, around changes of the clocks.
func TestAtAgreesWithCountingMinutes(t *testing.T) {
	zones := []string{"Etc/UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Asia/Beirut", "America/Santiago"}
	changes := []time.Time{
		time.Date(2021, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2021, 10, 31, 0, 0, 0, 0, time.UTC),
		time.Date(2021, 4, 4, 0, 0, 0, 0, time.UTC), time.Date(2021, 10, 3, 0, 0, 0, 0, time.UTC),
		time.Date(2021, 3, 14, 0, 0, 0, 0, time.UTC), time.Date(2021, 11, 7, 0, 0, 0, 0, time.UTC),
		time.Date(2021, 9, 5, 0, 0, 0, 0, time.UTC),
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		pick := func(of ...string) string { return of[random.IntN(len(of))] }
		expression := fmt.Sprintf("%s %s * * %s",
			pick("0", "30", "*/20", "15,45", "10", "*"), pick("0", "1", "2", "3", "*", "*/2", "1-3", "23"), pick("*", "0", "6,0"))
		zone := zones[random.IntN(len(zones))]
		duration := time.Duration(1+random.IntN(300)) * time.Minute
		from := changes[random.IntN(len(changes))].Add(-36 * time.Hour)
		w := parse(t, expression, zone, duration)
		open := slow(t, expression, w.Location(), duration, from, 72*time.Hour)
		for i := 0; i < len(open); i += 1 + random.IntN(40) {
			now := from.Add(time.Duration(i) * time.Minute).Add(time.Duration(random.IntN(60)) * time.Second)
			got, until := w.At(now)
			if got != open[i] {
				t.Fatalf("seed %d: %q for %s in %s at %s: open is %t, want %t", seed, expression, duration, zone, now, got, open[i])
			}
			if !until.After(now) {
				t.Fatalf("seed %d: at %s until %s", seed, now, until)
			}
			// It stays so until then, and changes then unless that is too far off.
			j := int(until.Sub(from) / time.Minute)
			for k := i; k < min(j, len(open)); k++ {
				if open[k] != got {
					t.Fatalf("seed %d: %q for %s in %s at %s: until %s, but it changes in minute %d", seed, expression, duration, zone, now, until, k-i)
				}
			}
			if j < len(open) && until.Sub(now) < 24*time.Hour && open[j] == got {
				t.Fatalf("seed %d: %q for %s in %s at %s: does not change at %s", seed, expression, duration, zone, now, until)
			}
		}
	}
}

// slow says for every minute from a time on whether the window is open.
func slow(t *testing.T, expression string, zone *time.Location, duration time.Duration, from time.Time, span time.Duration) []bool {
	t.Helper()
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		t.Fatal(err)
	}
	names := func(clock time.Time) bool { return parsed.Next(clock.Add(-time.Second)).Equal(clock) }
	open := make([]bool, span/time.Minute)
	start := from.Add(-duration - 48*time.Hour)
	shown := clockOf(start.Add(-time.Minute), zone)
	for now := start; now.Before(from.Add(span)); now = now.Add(time.Minute) {
		opens := false
		// All minutes that the clocks passed over since, none that they showed before.
		for clock := clockOf(now, zone); shown.Before(clock); {
			shown = shown.Add(time.Minute)
			opens = opens || names(shown)
		}
		if !opens {
			continue
		}
		for m := now; m.Before(now.Add(duration)); m = m.Add(time.Minute) {
			if i := int(m.Sub(from) / time.Minute); !m.Before(from) && i < len(open) {
				open[i] = true
			}
		}
	}
	return open
}

func clockOf(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
