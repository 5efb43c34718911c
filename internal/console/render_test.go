package console

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/console/view"
)

func TestAgesAreInTheirLargestUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 59*time.Minute + 59*time.Second: "59 min", time.Hour: "1 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 400 * 24 * time.Hour: "400 d",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

// A page is not sent again because time passes: its reader may be in the middle of it.
func TestAnAgeIsNoChangeOfAPage(t *testing.T) {
	s := drawing(t)
	began := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	at := func(after time.Duration, events ...view.Event) *rendered {
		s.now = func() time.Time { return began.Add(after) }
		var out strings.Builder
		if err := s.templates.ExecuteTemplate(&out, "events", events); err != nil {
			t.Fatal(err)
		}
		return &rendered{content: []byte(out.String())}
	}
	one, other := view.Event{Time: began, Reason: "One", Page: "/x"}, view.Event{Time: began.Add(time.Second), Reason: "One", Page: "/x"}
	first, later := at(time.Minute, one), at(2*time.Minute, one)
	if !strings.Contains(string(first.content), ">1 min ago</time>") || !strings.Contains(string(later.content), ">2 min ago</time>") {
		t.Errorf("%s\n%s", first.content, later.content)
	}
	if first.version() != later.version() {
		t.Error("a page that is older is another one")
	}
	if first.version() == at(time.Minute, other).version() {
		t.Error("a page with another time is the same")
	}
	counted := *first
	counted.nav.Attention = 1
	if first.version() == counted.version() {
		t.Error("a page with other counts is the same")
	}
}
