package progress

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// clock moves one second at each look.
func clock() func() time.Time {
	at := time.Unix(0, 0)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func TestPlainLinesSayWhatIsWaitedFor(t *testing.T) {
	var out bytes.Buffer
	tree := newTree(&out, clock())
	plane := tree.Step("plane")
	api := plane.Step("kube-apiserver")
	api.Wait("not ready: %s", "etcd")
	api.Wait("not ready: %s", "etcd") // nothing new: no line
	api.Done("")
	plane.Fail(errors.New("port 36443 is busy"))
	tree.Close()

	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"plane/kube-apiserver: not ready: etcd", "plane/kube-apiserver: done in", "plane: failed: port 36443 is busy"}
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(got), len(want), out.String())
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d = %q, want it to contain %q", i, got[i], want[i])
		}
	}
}

func TestLiveTreeRedrawsInPlaceAndCutsLongLines(t *testing.T) {
	var out bytes.Buffer
	tree := newTree(&out, clock())
	tree.live, tree.width = true, 40
	step := tree.Step("plane")
	step.Step("etcd").Done("%s", strings.Repeat("x", 100))
	tree.draw()
	out.Reset()
	tree.draw()
	if !strings.HasPrefix(out.String(), "\x1b[2A") {
		t.Errorf("the second drawing must start two lines up, got %q", out.String())
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
		text := line[strings.LastIndex(line, "\x1b[2K")+len("\x1b[2K"):]
		if n := len([]rune(text)); n > 40 {
			t.Errorf("line of %d columns on a terminal of 40: %q", n, text)
		}
	}
}
