package progress

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fixture is a tree on a clock that the test moves.
type fixture struct {
	*Tree
	out bytes.Buffer
	at  time.Time
}

func newFixture(columns, rows int) *fixture {
	f := &fixture{at: time.Unix(0, 0)}
	f.Tree = newTree(&f.out, func() time.Time { return f.at })
	if columns > 0 {
		f.size = func() (int, int) { return columns, rows }
	}
	return f
}

func (f *fixture) after(d time.Duration) {
	f.at = f.at.Add(d)
	f.show()
}

// lines returns what was written since the last call, without escape sequences.
func (f *fixture) lines() []string {
	text := regexp.MustCompile("\x1b\\[[0-9]*[A-Z]|\r").ReplaceAllString(f.out.String(), "")
	f.out.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func assertLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d = %q, want it to contain %q", i, got[i], want[i])
		}
	}
}

func TestPlainLinesComeNotTooOften(t *testing.T) {
	f := newFixture(0, 0)
	plane := f.Step("plane")
	plane.Waitf("starting")
	api := plane.Step("kube-apiserver")
	api.Waitf("not ready: %s", "etcd")
	f.after(plainEvery / 2)
	assertLines(t, f.lines()) // a quick step says only how it ended
	f.after(plainEvery / 2)
	assertLines(t, f.lines(), "2.0s  plane/kube-apiserver: not ready: etcd")
	api.Waitf("not ready: %s", "a")
	api.Waitf("not ready: %s", "b")
	f.after(plainEvery / 2)
	assertLines(t, f.lines())
	f.after(plainEvery / 2)
	assertLines(t, f.lines(), "plane/kube-apiserver: not ready: b")
	f.after(plainEvery)
	assertLines(t, f.lines()) // nothing new
	api.Donef("")
	assertLines(t, f.lines(), "plane/kube-apiserver: done in 6.0s")
	f.after(plainEvery)
	assertLines(t, f.lines(), "plane: starting")
	plane.Step("pki").Donef("there already")
	assertLines(t, f.lines())
	plane.Fail()
	assertLines(t, f.lines(), "plane: failed after 8.0s")
	plane.Step("etcd").Waitf("stopping")
	f.after(plainEvery)
	assertLines(t, f.lines())
}

func TestPlainReasonsAreCutAndPrintable(t *testing.T) {
	f := newFixture(0, 0)
	step := f.Step("a")
	step.Donef("one\ntwo \x1b[31mred\x07 %s", strings.Repeat("x", 1000))
	got := f.out.String()
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\x07") || len(got) > 250 {
		t.Errorf("%q", got)
	}
}

func TestLiveTreeRedrawsInPlaceAndCutsLongLines(t *testing.T) {
	f := newFixture(40, 24)
	step := f.Step("plane")
	step.Step("etcd").Waitf("%s", strings.Repeat("x", 100))
	f.show()
	assertLines(t, f.lines(), "plane", "etcd")
	f.show()
	if !strings.HasPrefix(f.out.String(), "\x1b[2A") {
		t.Errorf("the second drawing must start two lines up, got %q", f.out.String())
	}
	for _, line := range f.lines() {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("line of %d columns on a terminal of 40: %q", n, line)
		}
	}
}

func TestLiveTreeFoldsWhatIsDone(t *testing.T) {
	f := newFixture(80, 24)
	plane, hosts := f.Step("plane"), f.Step("hosts")
	plane.Step("etcd").Donef("")
	hosts.Step("host-1").Donef("booted")
	f.show()
	assertLines(t, f.lines(), "plane", "etcd", "hosts", "host-1")
	plane.Donef("serving")
	hosts.Step("host-2").Fail()
	hosts.Fail()
	f.show()
	assertLines(t, f.lines(), "✓ plane", "✗ hosts", "host-1", "✗ host-2")
}

func TestLiveTreeFitsTheScreen(t *testing.T) {
	f := newFixture(80, 10)
	hosts := f.Step("hosts")
	for n := range 20 {
		hosts.Step(fmt.Sprint("host-", n)).Waitf("booting")
	}
	nodes := f.Step("nodes")
	nodes.Waitf("0 of 3")
	f.show()
	assertLines(t, f.lines(), "hosts", "nodes")
	for n := range 20 {
		f.Step(fmt.Sprint("more-", n))
	}
	f.show()
	if got := f.lines(); len(got) != 9 || !strings.Contains(got[8], "more-19") {
		t.Errorf("%d lines on a terminal of 10, want the last 9:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// A note may be long: it must neither be cut nor be overwritten by the next frame.
func TestPendingTellsTheInnermostStep(t *testing.T) {
	f := newFixture(0, 0)
	nodes := f.Step("nodes")
	nodes.Waitf("1 of 2 nodes ready")
	nodes.Step("a").Donef("1 of 1")
	nodes.Step("b").Waitf("0 of 1: no host")
	f.Step("hosts").Waitf("booting")
	f.Step("plane").Fail()
	assertLines(t, f.Pending(), "nodes/b: 0 of 1: no host", "hosts: booting")
}

func TestNotesStay(t *testing.T) {
	note := "Warning: " + strings.Repeat("x", 100)
	for name, f := range map[string]*fixture{"live": newFixture(40, 24), "plain": newFixture(0, 0)} {
		t.Run(name, func(t *testing.T) {
			f.Step("a").Waitf("b")
			f.show()
			f.lines()
			f.Note(note)
			f.show()
			if got := f.lines(); len(got) == 0 || got[0] != note {
				t.Errorf("got %q", got)
			}
			f.show()
			if got := f.out.String(); strings.Contains(got, "Warning") || f.size != nil && !strings.HasPrefix(got, "\x1b[1A\r") {
				t.Errorf("the next frame %q, want it to replace the one step only", got)
			}
		})
	}
}

// TestPlainNotesKeepTheirOrder has a note before a line that is said later, and no frame in between.
func TestPlainNotesKeepTheirOrder(t *testing.T) {
	f := newFixture(0, 0)
	step := f.Step("machine")
	f.Note("first")
	f.at = f.at.Add(worthTelling)
	step.Donef("")
	assertLines(t, f.lines(), "first", "machine: done")
}
