package live

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a machine has room for.
const (
	// hostsPerCPU at once keep the processors busy: with two, a quarter of their time was
	// left. With four the starts of several planes coincide: one took over a minute on two
	// cores.
	hostsPerCPU = 3
	// inotifyPerHost instances, as `slipway up` reckons, and those of everything else. With
	// the 128 that many kernels give there is room for 6 hosts.
	inotifyPerHost, inotifyOther = 18, 20
	// memoryPerHost includes its share of the plane.
	memoryPerHost = 2 << 30
)

// Alone is the weight of a test that runs without any other: one that measures seconds.
const Alone = math.MaxInt

// sizeVariable overrules what the machine has room for: 1 has one test after the other.
const sizeVariable = "SLIPWAY_TEST_HOSTS"

// besideVariable says that tests which take no turns run beside these, as in CI.
const besideVariable = "SLIPWAY_TEST_BESIDE"

// Turn waits until the machine has room for a test that is as heavy as so many hosts, and
// keeps the room until the test ends. It counts the tests of other packages, which are
// other processes. Of those that wait, heavy tests ask sooner and more often: light ones
// fill the room they leave. A test that is heavier than the machine has a turn alone.
func Turn(t testing.TB, hosts int) {
	t.Helper()
	if hosts == Alone && os.Getenv(besideVariable) != "" {
		t.Fatalf("%s=%s: a test that measures seconds is one of ALONE_TESTS in the Makefile", besideVariable, os.Getenv(besideVariable))
	}
	begin := time.Now()
	size, err := hostsAtOnce()
	if err != nil {
		t.Fatal(err)
	}
	room := room{dir: filepath.Join(os.TempDir(), "slipway-test-turns"), size: size}
	release, err := room.take(hosts)
	if err != nil {
		t.Fatalf("wait for a turn: %v", err)
	}
	t.Cleanup(release)
	t.Logf("waited %.1fs for a turn: %d of %d hosts at once", time.Since(begin).Seconds(), min(hosts, size), size)
}

// hostsAtOnce is how many hosts the tests of all packages may have at once.
func hostsAtOnce() (int, error) {
	if size := os.Getenv(sizeVariable); size != "" {
		return strconv.Atoi(size)
	}
	memory, err := field("/proc/meminfo", "MemTotal:")
	if err != nil {
		return 0, err
	}
	size := min(hostsPerCPU*runtime.NumCPU(), memory<<10/memoryPerHost)
	// A kernel may be without limits to inotify.
	if instances, err := field("/proc/sys/fs/inotify/max_user_instances", ""); err == nil {
		size = min(size, (instances-inotifyOther)/inotifyPerHost)
	}
	return max(1, size), nil
}

// field is the number behind a word in a file.
func field(path, word string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(data), word)
	fields := strings.Fields(after)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("%s has no number behind %q", path, word)
	}
	return strconv.Atoi(fields[0])
}

// room is shared by processes: a folder with a file for each place. Who holds the lock of
// a file has the place, and the kernel frees it with the process.
type room struct {
	dir  string
	size int
}

// pause before a test looks for free places, for each place that it leaves to others.
const pause = 50 * time.Millisecond

// take waits for so many places and returns what frees them.
func (r room) take(places int) (release func(), err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	places = min(places, r.size)
	for {
		time.Sleep(pause * time.Duration(1+r.size-places))
		if release, err = r.try(places); release != nil || err != nil {
			return release, err
		}
	}
}

// try returns nil when there are not as many free places. One tries at a time, so that two
// never hold half of what each needs.
func (r room) try(places int) (release func(), err error) {
	turn, err := r.lock("turn", unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	var held []*os.File
	release = func() {
		for _, f := range held {
			_ = f.Close()
		}
	}
	for i := 0; i < r.size && len(held) < places; i++ {
		f, err := r.lock(strconv.Itoa(i), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			held = append(held, f)
		case !errors.Is(err, unix.EWOULDBLOCK):
			release()
			return nil, err
		}
	}
	if len(held) < places {
		release()
		return nil, nil //nolint:nilnil // there is no room, see above
	}
	return release, nil
}

func (r room) lock(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}
