package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func reopen(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// history writes n updates and returns the states after each one and the file
// size at which each was complete.
func history(t *testing.T, path string, n int) ([]State, []int64) {
	t.Helper()
	j := reopen(t, path)
	states, sizes := []State{j.State()}, []int64{size(t, path)}
	for i := range n {
		err := j.Update(func(s *State) {
			s.ClaimGeneration = int64(i + 1)
			s.ClaimID = fmt.Sprintf("claim-%d", i)
			s.Operation = &Operation{ID: fmt.Sprintf("op-%d", i), State: infrav1.OperationRunning,
				StartTime: time.Unix(int64(i), 0).UTC()}
		})
		if err != nil {
			t.Fatal(err)
		}
		states, sizes = append(states, j.State()), append(sizes, size(t, path))
	}
	return states, sizes
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestTruncatedAtEveryByteRecoversTheLastWholeRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	states, sizes := history(t, path, 4)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		torn := filepath.Join(dir, "torn")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		want := State{}
		for i, s := range sizes {
			if int64(cut) >= s {
				want = states[i]
			}
		}
		j, err := Open(torn)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if int64(cut) < sizes[0] {
			// The agent never leaves such a file: the first record is there before the name.
			if j.State().Lost == nil {
				t.Fatalf("cut at %d: nothing is known, and nothing says so", cut)
			}
			continue
		}
		if got := j.State(); !reflect.DeepEqual(got, want) {
			t.Fatalf("cut at %d: recovered %+v, want %+v", cut, got, want)
		}
		// The journal goes on from there, and a reader sees it.
		if err := j.Update(func(s *State) { s.VirtualIP = "10.0.0.1" }); err != nil {
			t.Fatal(err)
		}
		want.VirtualIP = "10.0.0.1"
		if again, err := Read(torn); err != nil || !reflect.DeepEqual(again, want) {
			t.Fatalf("cut at %d: after an update %+v (%v), want %+v", cut, again, err, want)
		}
		_ = j.Close()
	}
}

// Damage is told from the torn end of a power cut: the newest record that can be read counts, the
// file stays for who looks into it, and the state says that it is not the whole truth.
func TestDamageIsToldAndKept(t *testing.T) {
	for name, c := range map[string]struct {
		// damage gets the journal and where its records end.
		damage func(data []byte, sizes []int64) []byte
		// state is the index of the record that counts.
		state int
		lost  bool
	}{
		"nothing":                  {func(d []byte, _ []int64) []byte { return d }, 3, false},
		"torn end":                 {func(d []byte, _ []int64) []byte { return d[:len(d)-7] }, 2, false},
		"torn end with zeros":      {func(d []byte, s []int64) []byte { clear(d[s[2] : s[2]+30]); return d }, 2, false},
		"a bit of the last record": {func(d []byte, s []int64) []byte { d[s[2]+20] ^= 1; return d }, 2, true},
		"a bit in the middle":      {func(d []byte, s []int64) []byte { d[s[1]+20] ^= 1; return d }, 3, true},
		"a bit of the first":       {func(d []byte, _ []int64) []byte { d[0] ^= 1; return d }, 3, true},
		"zeros in the middle":      {func(d []byte, s []int64) []byte { clear(d[s[1] : s[1]+30]); return d }, 3, true},
		"something else":           {func([]byte, []int64) []byte { return []byte("hello\n") }, 0, true},
		"empty":                    {func([]byte, []int64) []byte { return nil }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			states, sizes := history(t, path, 3)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data = c.damage(data, sizes)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			read, err := Read(path)
			if err != nil || (read.Lost != nil) != c.lost {
				t.Errorf("read: lost is %+v, %v", read.Lost, err)
			}
			// A power cut after the file was kept, and before there is a new one, comes to the same.
			if c.lost {
				if _, err := keepAside(path); err != nil {
					t.Fatal(err)
				}
			}
			got := reopen(t, path).State()
			if (got.Lost != nil) != c.lost {
				t.Errorf("lost is %+v", got.Lost)
			}
			if again := reopen(t, path).State(); !reflect.DeepEqual(again, got) {
				t.Errorf("opened again it has %+v, and had %+v", again, got)
			}
			got.Lost = nil
			if !reflect.DeepEqual(got, states[c.state]) {
				t.Errorf("recovered %+v, want %+v", got, states[c.state])
			}
			kept, err := filepath.Glob(path + DamagedSuffix + "*")
			if err != nil || (len(kept) == 1) != c.lost {
				t.Fatalf("kept are %v, %v", kept, err)
			}
			if c.lost {
				if content, err := os.ReadFile(kept[0]); err != nil || string(content) != string(data) {
					t.Errorf("%s has %q, %v", kept[0], content, err)
				}
			}
		})
	}
}

// A second damage takes nothing of the first.
func TestDamageIsKeptEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for n := range 3 {
		content := fmt.Sprintf("%d\n", n)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		reopen(t, path)
	}
	for n, suffix := range []string{"", "-2", "-3"} {
		if content, err := os.ReadFile(path + DamagedSuffix + suffix); err != nil || string(content) != fmt.Sprintf("%d\n", n) {
			t.Errorf("%q, %v", content, err)
		}
	}
}

// An agent that has worked on the host before has a journal, or knows that it is gone.
func TestMissingJournal(t *testing.T) {
	for name, c := range map[string]struct {
		open func(string) (*Journal, error)
		lost bool
	}{"first start": {Open, false}, "later": {Reopen, true}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			for range 2 {
				j, err := c.open(path)
				if err != nil || (j.State().Lost != nil) != c.lost {
					t.Fatalf("%+v, %v", j.State().Lost, err)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestCompactionKeepsTheState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := reopen(t, path)
	for i := range 3000 {
		if err := j.Update(func(s *State) { s.ClaimGeneration = int64(i); s.ClaimID = "0123456789abcdef0123456789abcdef" }); err != nil {
			t.Fatal(err)
		}
	}
	if got := size(t, path); got > compactAt {
		t.Fatalf("the journal grew to %d bytes", got)
	}
	if got := reopen(t, path).State().ClaimGeneration; got != 2999 {
		t.Fatalf("generation %d, want 2999", got)
	}
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := reopen(t, path)
	if err := j.Update(func(s *State) { s.ClaimID = "a" }); err != nil {
		t.Fatal(err)
	}
	_ = j.file.Close()
	if err := j.Update(func(s *State) { s.ClaimID = "b" }); err == nil {
		t.Fatal("no error although the file is closed")
	}
	if got := j.State().ClaimID; got != "a" {
		t.Fatalf("state in memory is %q after a failed write", got)
	}
}

func TestStateIsACopy(t *testing.T) {
	j := InMemory()
	if err := j.Update(func(s *State) { s.Operation = &Operation{ID: "a"} }); err != nil {
		t.Fatal(err)
	}
	j.State().Operation.ID = "changed"
	if got := j.State().Operation.ID; got != "a" {
		t.Fatalf("the journal was changed through a copy: %q", got)
	}
}

func TestJournalIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	reopen(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, want 0600", info.Mode().Perm())
	}
}

// A journal that is only looked at stays as it is, a torn end included.
func TestFrozen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	states, _ := history(t, path, 2)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)-3]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := Frozen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Update(func(s *State) { s.VirtualIP = "10.0.0.1" }); !errors.Is(err, ErrFrozen) {
		t.Errorf("err = %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(torn) || !reflect.DeepEqual(j.State(), states[1]) {
		t.Errorf("%v: the file is %q, the state %+v", err, now, j.State())
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// The journal goes on when somebody has filled its disk, across rewrites too: a reset that is to free the
// disk records its steps there.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("slipway", dir, "tmpfs", 0, "size=4m"); err != nil {
		rights.Skip(t, "a disk of its own takes root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "journal")
	if err := reopen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "workload"))
	rewritten, before := 0, int64(0)
	for restarts := range 3 {
		j := reopen(t, path)
		for i := range 500 {
			if err := j.Update(func(s *State) {
				s.ClaimGeneration, s.Found = int64(1000*restarts+i), []string{strings.Repeat("x", 1000)}
			}); err != nil {
				t.Fatal(err)
			}
			if now := size(t, path); now < before {
				rewritten++
				fill(t, filepath.Join(dir, fmt.Sprintf("more-%d", rewritten))) // the workload takes what was freed
			}
			before = size(t, path)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := reopen(t, path).State().ClaimGeneration; got != 2499 || rewritten < 5 {
		t.Errorf("generation %d after %d rewrites", got, rewritten)
	}
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		return // not even a name
	}
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
