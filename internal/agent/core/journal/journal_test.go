package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func open(t *testing.T, path string) *Journal {
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
	j := open(t, path)
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

func TestDamagedRecordIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	states, sizes := history(t, path, 3)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[sizes[2]+20] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).State(); !reflect.DeepEqual(got, states[2]) {
		t.Fatalf("recovered %+v, want the record before the damage %+v", got, states[2])
	}
}

func TestCompactionKeepsTheState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	for i := range 3000 {
		if err := j.Update(func(s *State) { s.ClaimGeneration = int64(i); s.ClaimID = "0123456789abcdef0123456789abcdef" }); err != nil {
			t.Fatal(err)
		}
	}
	if got := size(t, path); got > compactAt {
		t.Fatalf("the journal grew to %d bytes", got)
	}
	if got := open(t, path).State().ClaimGeneration; got != 2999 {
		t.Fatalf("generation %d, want 2999", got)
	}
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
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
	open(t, path)
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
