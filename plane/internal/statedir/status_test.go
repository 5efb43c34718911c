package statedir

import (
	"os"
	"testing"
)

// What the plane that serves tells of itself is known as long as it serves.
func TestCurrent(t *testing.T) {
	dir := t.TempDir()
	if got := Current(dir); got != nil {
		t.Errorf("before the first plane: %+v", got)
	}
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := Current(dir); got != nil {
		t.Errorf("a plane that has not told yet: %+v", got)
	}
	told := &Status{PID: os.Getpid(), Foreground: true, Outside: &Outside{Listen: "192.0.2.10"}}
	if err := WriteStatus(dir, told); err != nil {
		t.Fatal(err)
	}
	if got := Current(dir); got == nil || !got.Foreground || got.Outside == nil || got.Outside.Listen != "192.0.2.10" {
		t.Errorf("a plane that serves: %+v", got)
	}
	told.PID++
	if err := WriteStatus(dir, told); err != nil {
		t.Fatal(err)
	}
	if got := Current(dir); got != nil {
		t.Errorf("what an earlier plane told counts: %+v", got)
	}
	told.PID--
	if err := WriteStatus(dir, told); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if got := Current(dir); got != nil {
		t.Errorf("a plane that has ended: %+v", got)
	}
}
