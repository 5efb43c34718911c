package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

// overridesDir holds the private files of opOverride.
const overridesDir = "/run/slipway/overrides"

// buildRoot assembles the root of the host below <dir>/rootfs, inside the mount
// namespace of the init, and makes it the root of that namespace.
func buildRoot(s Spec, bootID string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := prepareDisk(s.Dir); err != nil {
		return err
	}
	root := filepath.Join(s.Dir, "rootfs")
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64m,mode=755"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	isLink := func(name string) bool {
		st, err := os.Lstat("/" + name)
		return err == nil && st.Mode()&os.ModeSymlink != 0
	}
	for _, step := range mountPlan(s, bootID, isLink) {
		if err := step.apply(root); err != nil {
			return err
		}
	}
	return pivot(root)
}

// diskDirs exist on the disk of every host.
var diskDirs = []string{
	"rootfs", "overlay/usr/upper", "overlay/usr/work", "overlay/etc/upper", "overlay/etc/work", "overlay/cni/upper", "overlay/cni/work",
	"opt", "root", "var/lib/containerd", "var/lib/kubelet", "var/lib/etcd", "var/lib/slipway-host", "var/log", "var/cache", "var/spool", "var/tmp",
	"overlay/etc/upper/cni/net.d", "overlay/etc/upper/containerd", "overlay/etc/upper/kubernetes/manifests", "overlay/etc/upper/slipway", "overlay/etc/upper/default",
}

// maskedDirs hide the machine's directories of the same name in /etc: a host starts without them.
var maskedDirs = []string{"cni", "containerd", "kubernetes", "slipway"}

// maskedFiles hide files in /etc that would change how the kubelet is started.
var maskedFiles = []string{"default/kubelet"}

// prepareDisk makes the directories of an empty disk and finishes an interrupted attempt.
func prepareDisk(dir string) error {
	for _, d := range diskDirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	err := durable.WithParent(dir, "/var/tmp", func(d *durable.Dir, name string) error {
		return d.SetOwner(name, 0o777|os.ModeSticky, durable.Keep, durable.Keep)
	})
	if err != nil {
		return err
	}
	for link, target := range map[string]string{"var/run": "/run", "var/lock": "/run/lock"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	etc := filepath.Join(dir, "overlay/etc/upper")
	for _, d := range maskedDirs {
		// Both marks are those of the kernel's overlayfs documentation.
		if err := unix.Setxattr(filepath.Join(etc, d), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("mask the machine's /etc/%s: %w", d, err)
		}
	}
	for _, f := range maskedFiles {
		if err := unix.Mknod(filepath.Join(etc, f), unix.S_IFCHR, 0); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("mask the machine's /etc/%s: %w", f, err)
		}
	}
	return nil
}

func (m mountStep) apply(root string) error {
	err := m.do(root, filepath.Join(root, m.path))
	if m.optional && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", m.path, err)
	}
	return nil
}

func (m mountStep) do(root, target string) error {
	switch m.op {
	case opDir:
		return os.MkdirAll(target, 0o755)
	case opLink:
		return os.Symlink(m.source, target)
	case opMount:
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fstype, target, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s (%s): %w", m.fstype, m.data, err)
		}
		return nil
	case opBind:
		return m.bind(target)
	case opOverride:
		return m.override(root, target)
	case opMask:
		return mask(target)
	case opReadonly:
		return makeReadonly(target)
	}
	return fmt.Errorf("unknown step %d", m.op)
}

func (m mountStep) bind(target string) error {
	st, err := os.Stat(m.source)
	if err != nil {
		return err
	}
	if st.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		err = touch(target)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(m.source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", m.source, err)
	}
	if !m.readonly {
		return nil
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

func (m mountStep) override(root, target string) error {
	content := []byte(m.content)
	if m.content == "" {
		var err error
		if content, err = os.ReadFile(target); err != nil {
			return err
		}
	}
	if _, err := os.Stat(target); err != nil {
		return err
	}
	dir := filepath.Join(root, overridesDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	private := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(m.path, "/"), "/", "."))
	if err := os.WriteFile(private, content, 0o644); err != nil {
		return err
	}
	return unix.Mount(private, target, "", unix.MS_BIND, "")
}

func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// pivot makes root the root of the mount namespace and lets go of the machine's.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// With the same directory for both, the old root lies on top of the new one until it is unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// The kubelet wants the mounts of pods to propagate.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}
