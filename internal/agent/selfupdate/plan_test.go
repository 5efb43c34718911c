package selfupdate

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

const (
	oldVersion, newVersion = "v0.1.0", "v0.2.0"
	digestA                = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func TestPlan(t *testing.T) {
	now := time.Unix(10000, 0)
	order := &Order{newVersion, digestA}
	record := func(change func(*Record)) *Record {
		r := &Record{Version: newVersion, ReleaseDigest: digestA, State: infrav1.HostAgentUpdateFetching}
		change(r)
		return r
	}
	unchanged := func(*Record) {}
	failed := record(func(r *Record) { r.Attempts, r.State = 3, infrav1.HostAgentUpdateFailed })
	for name, tc := range map[string]struct {
		change func(*situation)
		want   deed
		again  time.Time
		state  infrav1.HostAgentUpdateState
		says   string
	}{
		"an order":                  {func(*situation) {}, prepare, time.Time{}, infrav1.HostAgentUpdateFetching, ""},
		"a fetched program":         {func(s *situation) { s.prepared = true }, try, time.Time{}, infrav1.HostAgentUpdateFetching, ""},
		"nothing heard":             {func(s *situation) { s.heard, s.order = false, nil }, rest, time.Time{}, "", ""},
		"no order":                  {func(s *situation) { s.order = nil }, rest, time.Time{}, "", ""},
		"no order any more":         {func(s *situation) { s.order, s.record = nil, failed }, forget, time.Time{}, "", ""},
		"failed, nothing heard":     {func(s *situation) { s.heard, s.order, s.record = false, nil, failed }, rest, time.Time{}, infrav1.HostAgentUpdateFailed, ""},
		"failed for good":           {func(s *situation) { s.record = failed }, rest, time.Time{}, infrav1.HostAgentUpdateFailed, ""},
		"failed, another version":   {func(s *situation) { s.record, s.order = failed, &Order{"v0.3.0", digestA} }, forget, time.Time{}, "", ""},
		"failed, another bundle":    {func(s *situation) { s.record, s.order = failed, &Order{newVersion, "sha256:b"} }, forget, time.Time{}, "", ""},
		"its own version":           {func(s *situation) { s.own = newVersion }, rest, time.Time{}, "", ""},
		"confirmed":                 {func(s *situation) { s.own, s.record = newVersion, record(unchanged) }, forget, time.Time{}, "", ""},
		"confirmed, nothing heard":  {func(s *situation) { s.own, s.heard, s.record = newVersion, false, record(unchanged) }, forget, time.Time{}, "", ""},
		"somebody brought a newer":  {func(s *situation) { s.own, s.record = "v0.3.0", record(unchanged) }, forget, time.Time{}, "", ""},
		"an older version":          {func(s *situation) { s.own = "v0.10.0" }, rest, time.Time{}, "", ""},
		"to a release from its rc":  {func(s *situation) { s.own = "v0.2.0-rc.1" }, prepare, time.Time{}, infrav1.HostAgentUpdateFetching, ""},
		"to an rc of its release":   {func(s *situation) { s.own, s.order = newVersion, &Order{"v0.2.0-rc.1", digestA} }, rest, time.Time{}, "", ""},
		"a build without a version": {func(s *situation) { s.own = "v0.0.0-dev" }, rest, time.Time{}, "", ""},
		"to one without a version":  {func(s *situation) { s.own, s.order = "v0.0.0-a", &Order{"v0.0.0-dev", digestA} }, rest, time.Time{}, "", ""},
		"own is no version":         {func(s *situation) { s.own = "abc" }, rest, time.Time{}, "", ""},
		"ordered is no version":     {func(s *situation) { s.order = &Order{"zzz", digestA} }, rest, time.Time{}, "", ""},
		"does not update itself":    {func(s *situation) { s.may = false }, rest, now.Add(keyPoll), "", ""},
		"does not any more":         {func(s *situation) { s.may, s.record = false, record(unchanged) }, forget, time.Time{}, "", ""},
		"an operation at work":      {func(s *situation) { s.busy = "b (Bootstrapped)" }, rest, now.Add(busyPoll), infrav1.HostAgentUpdateFetching, "no operation is at work on the host: b (Bootstrapped)"},
		"fetched, and at work":      {func(s *situation) { s.busy, s.prepared = "b", true }, rest, now.Add(busyPoll), infrav1.HostAgentUpdateFetching, "no operation is at work"},
		"a fetch that failed":       {func(s *situation) { s.fetchAt = now.Add(time.Minute) }, rest, now.Add(time.Minute), infrav1.HostAgentUpdateFetching, ""},
		"its pause is over":         {func(s *situation) { s.fetchAt = now }, prepare, time.Time{}, infrav1.HostAgentUpdateFetching, ""},
		"cut short": {func(s *situation) {
			s.record = record(func(r *Record) { *r = r.begun(now, s.retry) })
		}, settle, time.Time{}, infrav1.HostAgentUpdateTrying, ""},
		"after a trial": {func(s *situation) {
			s.record = record(func(r *Record) { r.Attempts, r.NextTry, r.Message = 2, now.Add(20*time.Minute), "tried" })
		}, rest, now.Add(20 * time.Minute), infrav1.HostAgentUpdateFetching, "tried"},
		"a clock that was wrong": {func(s *situation) {
			s.record = record(func(r *Record) { r.Attempts, r.NextTry = 2, now.Add(time.Hour) })
		}, prepare, time.Time{}, infrav1.HostAgentUpdateFetching, ""},
		"a trial that counts for nothing": {func(s *situation) {
			s.record = record(func(r *Record) { r.NextTry = now.Add(10 * time.Minute) })
		}, rest, now.Add(10 * time.Minute), infrav1.HostAgentUpdateFetching, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{own: oldVersion, may: true, heard: true, order: order, now: now, retry: 10 * time.Minute}
			tc.change(&s)
			got := plan(s)
			if got.deed != tc.want || !got.again.Equal(tc.again) {
				t.Errorf("deed %d, again at %v, want %d at %v", got.deed, got.again, tc.want, tc.again)
			}
			if report := got.report.report(); tc.state == "" && report != nil || tc.state != "" && (report == nil || report.State != tc.state || !strings.Contains(report.Message, tc.says)) {
				t.Errorf("it tells %+v", report)
			}
		})
	}
}

// Each trial counts, and after the last one nothing is tried again.
func TestAttempts(t *testing.T) {
	now := time.Unix(10000, 0).UTC()
	r := Record{Version: newVersion, ReleaseDigest: digestA, State: infrav1.HostAgentUpdateFetching}
	for attempt := 1; attempt <= 3; attempt++ {
		begun := r.begun(now, time.Minute)
		if begun.State != infrav1.HostAgentUpdateTrying || begun.Attempts != attempt || !begun.NextTry.Equal(now.Add(time.Duration(attempt)*time.Minute)) {
			t.Errorf("begun: %+v", begun)
		}
		if u := begun.unbegun("nobody answers", now); u.Attempts != attempt-1 || u.State != infrav1.HostAgentUpdateFetching || u.Message != "nobody answers" {
			t.Errorf("one that says nothing of the new agent: %+v", u)
		}
		r = begun.failed("it ended", now, time.Minute)
	}
	if r.State != infrav1.HostAgentUpdateFailed || !strings.Contains(r.Message, "tried 3 of 3 times: it ended; this bundle is not tried again: load a mended release") || !r.NextTry.IsZero() {
		t.Errorf("in the end: %+v", r)
	}
	again := Record{Attempts: 1}.failed("it ended", now, time.Minute)
	if want := "tried 1 of 3 times: it ended; the next try is at 1970-01-01T02:47:40Z"; again.State != infrav1.HostAgentUpdateFetching || again.Message != want {
		t.Errorf("%+v, want %q", again, want)
	}
}

func TestPauses(t *testing.T) {
	l := limitsOf("")
	for failures, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 5: 16 * time.Minute, 6: 30 * time.Minute, 1000: 30 * time.Minute} {
		for range 20 {
			if d := l.afterFailure(failures); d > want || d < want/2-1 {
				t.Errorf("after %d failures: %s, want up to %s", failures, d, want)
			}
		}
	}
	if l := limitsOf("1s,2s,3s"); l.start != time.Second || l.report != 2*time.Second || l.retry != 3*time.Second || l.stop != 10*time.Second {
		t.Errorf("%+v", l)
	}
}

func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		program, version string
		want             bool
	}{
		"ours":              {dir + "/slipway-agent", oldVersion, true},
		"beside programs":   {"/usr/local/bin/slipway-agent", oldVersion, unix.Access("/usr/local/bin", unix.W_OK) == nil},
		"of a package":      {"/usr/bin/slipway-agent", oldVersion, false},
		"of a package, too": {"/sbin/slipway-agent", oldVersion, false},
		"without a version": {dir + "/slipway-agent", "v0.0.0-dev", false},
		"not known":         {"", oldVersion, false},
		"nowhere":           {dir + "/none/slipway-agent", oldVersion, false},
	} {
		if got := Replaceable(tc.program, tc.version); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
