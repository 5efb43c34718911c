package live

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func take(t *testing.T, r room, places int) (release func()) {
	t.Helper()
	release, err := r.take(places)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestNeverMoreThanTheRoom(t *testing.T) {
	t.Parallel()
	r := room{dir: t.TempDir(), size: 5}
	var inside atomic.Int64
	var tests sync.WaitGroup
	for range 12 {
		tests.Go(func() {
			places := 1 + rand.Int64N(4)
			release, err := r.take(int(places))
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(places); n > int64(r.size) {
				t.Errorf("%d places of %d are taken", n, r.size)
			}
			time.Sleep(10 * time.Millisecond)
			inside.Add(-places)
			release()
		})
	}
	tests.Wait()
}

// Of two that come at once the heavy one is first, and a light one fills what it leaves.
func TestHeavyTestIsFirst(t *testing.T) { synctest.Test(t, heavyTestIsFirst) }

func heavyTestIsFirst(t *testing.T) {
	r := room{dir: t.TempDir(), size: 4}
	order := make(chan int, 3)
	over := make(chan struct{})
	var tests sync.WaitGroup
	for _, places := range []int{2, 3, 1} {
		tests.Go(func() {
			release, err := r.take(places)
			if err != nil {
				t.Error(err)
				return
			}
			if order <- places; places != 2 {
				<-over
			}
			release()
		})
	}
	first, second := <-order, <-order
	close(over)
	tests.Wait()
	if first != 3 || second != 1 {
		t.Errorf("tests of %d, %d and %d places had their turn one after the other", first, second, <-order)
	}
}

func TestHostsAtOnce(t *testing.T) {
	if size, err := hostsAtOnce(); err != nil || size < 1 || size > hostsPerCPU*runtime.NumCPU() {
		t.Errorf("%d hosts at once: %v", size, err)
	}
	t.Setenv(sizeVariable, "1")
	if size, err := hostsAtOnce(); err != nil || size != 1 {
		t.Errorf("%d hosts at once, want 1: %v", size, err)
	}
}

// holder is in the environment of a process that takes two places until it is killed.
const holder = "SLIPWAY_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holder); dir != "" {
		if _, err := (room{dir: dir, size: 2}).take(2); err == nil {
			_, _ = os.Stdout.WriteString("taken\n")
		}
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func TestKilledProcessGivesUpItsPlaces(t *testing.T) {
	t.Parallel()
	r := room{dir: t.TempDir(), size: 2}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), holder+"="+r.dir)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "taken\n" {
		t.Fatalf("the other process says %q: %v", line, err)
	}
	if f, err := r.lock("0", unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_ = f.Close()
		t.Error("a place of another process can be taken")
	}
	_ = process.Process.Kill()
	_ = process.Wait()
	take(t, r, 2)()
}
