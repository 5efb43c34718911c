package etcd

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// minFree is the least free space etcd is started with, in bytes: two log
// segments and room for the database to grow.
const minFree = 4 * uint64(walSegment)

func checkSpace(dir string) error {
	if free := freeBytes(dir); free < minFree {
		return &NoSpaceError{Dir: dir, Free: free, Need: minFree}
	}
	return nil
}

// freeBytes returns what an unprivileged process could still write to dir's
// disk, 0 when that cannot be told.
func freeBytes(dir string) uint64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}

// checkLock returns a *LockedError when another process has the database open.
// Without it etcd would wait for the lock for ever, in silence.
func checkLock(db string) error {
	f, err := os.Open(db)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open etcd's database: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &LockedError{Path: db, PID: lockHolder(f)}
	}
	if err != nil {
		return fmt.Errorf("lock etcd's database: %w", err)
	}
	return nil
}

// lockHolder finds the process that holds a lock on f, 0 when there is none or
// it lives in another PID namespace.
func lockHolder(f *os.File) int {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	// A line reads "1: FLOCK  ADVISORY  WRITE 4711 fd:01:131 0 EOF".
	inode := ":" + strconv.FormatUint(st.Ino, 10)
	for sc := bufio.NewScanner(locks); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) > 5 && fields[1] == "FLOCK" && strings.HasSuffix(fields[5], inode) {
			pid, _ := strconv.Atoi(fields[4])
			return max(pid, 0)
		}
	}
	return 0
}
