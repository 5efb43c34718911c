package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// Path is the file at which the namespace of the instance is pinned.
func Path(name string) string { return filepath.Join(netnsDir, name) }

// pin makes a new namespace and binds it to path, unless one is bound there.
func pin(path string) error {
	if isNetNS(path) {
		return nil
	}
	if err := mountNetnsDir(); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return OnOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("pin the network namespace at %s: %w", path, err)
		}
		return nil
	})
}

// mountNetnsDir makes the directory a mount point, as the first `ip netns add` of a machine
// does. If that came later, it would cover what is pinned here with copies, and the pins below
// them could be neither unmounted nor removed.
func mountNetnsDir() error {
	err := unix.Mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) {
		err = errors.Join(
			unix.Mount(netnsDir, netnsDir, "", unix.MS_BIND|unix.MS_REC, ""),
			unix.Mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, ""))
	}
	if err != nil {
		return fmt.Errorf("make %s a shared mount point: %w", netnsDir, err)
	}
	return nil
}

// isNetNS tells a pinned namespace from the plain file that a crash, or a
// restart of the machine, may have left.
func isNetNS(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

// lockNetnsDir serialises those who pin namespaces. The directory itself is the
// lock, so that nothing has to be cleaned up.
func lockNetnsDir(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return nil, err
	}
	d, err := os.Open(netnsDir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = d.Close()
			return nil, fmt.Errorf("lock %s: %w", netnsDir, err)
		}
		select {
		case <-ctx.Done():
			_ = d.Close()
			return nil, fmt.Errorf("lock %s: %w", netnsDir, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// OnOwnThread runs fn on an OS thread that dies with it, so that fn may change the
// thread's namespaces: such a thread must never run another goroutine.
func OnOwnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread never dies, and /proc/self shows its namespaces. Keep it occupied while another one does it.
			defer runtime.UnlockOSThread()
			done <- OnOwnThread(fn)
			return
		}
		done <- fn()
	}()
	return <-done
}

// inNamespace runs fn inside the network namespace at path. Sockets that fn
// makes, and what it reads and writes below /proc/sys/net, belong to it.
func inNamespace(path string, fn func() error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer f.Close()
	return inNamespaceFD(int(f.Fd()), fn)
}

func inNamespaceFD(fd int, fn func() error) error {
	return OnOwnThread(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return fn()
	})
}

// handleAt opens netlink in the namespace at path. Close it.
func handleAt(path string) (*netlink.Handle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink in %s: %w", path, err)
	}
	return h, nil
}
