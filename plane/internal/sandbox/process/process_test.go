package process

import (
	"errors"
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1000"
	for stat, want := range map[string]struct {
		start  uint64
		zombie bool
		ok     bool
	}{
		"12 (slipway-sandbox) S" + tail: {4242, false, true},
		"12 (a) b) (c) Z" + tail:        {4242, true, true},
		"12 (x) S 1 2":                  {0, false, false},
	} {
		start, zombie, err := parseStat(stat)
		if (err == nil) != want.ok || (want.ok && (start != want.start || zombie != want.zombie)) {
			t.Errorf("%q: %d, %v, %v", stat, start, zombie, err)
		}
	}
}

func TestIDRecognisesItsProcess(t *testing.T) {
	r, err := IDOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Open()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for name, change := range map[string]func(*ID){
		"another process":        func(r *ID) { r.StartTime++ },
		"an earlier machine run": func(r *ID) { r.MachineBootID = "x" },
		"no process":             func(r *ID) { r.PID = 1 << 30 },
		"nothing":                func(r *ID) { *r = ID{} },
	} {
		other := r
		change(&other)
		if _, err := other.Open(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
