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
}

// etcDirs exist in /etc of every host.
var etcDirs = []string{"cni/net.d", "containerd", "kubernetes/manifests", "slipway", "default"}

// maskedDirs hide the machine's directories of the same name in /etc: a host starts without them.
var maskedDirs = []string{"cni", "containerd", "kubernetes", "slipway"}

// maskedFiles hide files in /etc that would change how the kubelet is started.
var maskedFiles = []string{"default/kubelet"}

// prepareDisk makes the directories of an empty disk and finishes an interrupted attempt.
func prepareDisk(dir string) error {
	for _, d := range diskDirs {
		if err := inside(dir).mkdirAll(d, 0); err != nil {
			return err
		}
	}
	etc := inside(filepath.Join(dir, "overlay/etc/upper"))
	for _, d := range etcDirs {
		// A link of the host hides the machine's directory, too.
		if err := etc.mkdirAll(d, unix.RESOLVE_NO_SYMLINKS); err != nil && !replaced(err) {
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
		if err := inside(dir).link(target, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, d := range maskedDirs {
		// Both marks are those of the kernel's overlayfs documentation.
		err := etc.real(d, func(f *os.File) error {
			return unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "trusted.overlay.opaque", []byte("y"), 0)
		})
		if err != nil {
			return fmt.Errorf("mask the machine's /etc/%s: %w", d, err)
		}
	}
	for _, name := range maskedFiles {
		err := etc.real(filepath.Dir(name), func(f *os.File) error {
			if err := unix.Mknodat(int(f.Fd()), filepath.Base(name), unix.S_IFCHR, 0); !errors.Is(err, unix.EEXIST) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("mask the machine's /etc/%s: %w", name, err)
		}
	}
	return nil
}

// real calls do with a directory, unless the host has replaced it by something else.
func (in inside) real(path string, do func(*os.File) error) error {
	f, err := in.open(path, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		if replaced(err) {
			return nil
		}
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.IsDir() {
		return err
	}
	return do(f)
}

// replaced says of an error that there is a link or a file where a directory was.
func replaced(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) }

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
	in := inside(root)
	switch m.op {
	case opDir:
		return in.mkdirAll(m.path, 0)
	case opLink:
		return in.link(m.source, m.path)
	case opMount:
		if err := in.mkdirAll(m.path, 0); err != nil {
			return err
		}
		err := in.at(m.path, func(target string) error { return unix.Mount(m.fstype, target, m.fstype, m.flags, m.data) })
		if err != nil {
			return fmt.Errorf("mount %s (%s): %w", m.fstype, m.data, err)
		}
		return nil
	case opBind:
		return m.bind(in)
	case opOverride:
		return m.override(root, target)
	case opMask:
		return mask(target)
	case opReadonly:
		return makeReadonly(target)
	}
	return fmt.Errorf("unknown step %d", m.op)
}

func (m mountStep) bind(in inside) error {
	st, err := os.Stat(m.source)
	if err != nil {
		return err
	}
	if st.IsDir() {
		err = in.mkdirAll(m.path, 0)
	} else {
		err = in.touch(m.path)
	}
	if err != nil {
		return err
	}
	if err := in.at(m.path, func(target string) error { return unix.Mount(m.source, target, "", unix.MS_BIND, "") }); err != nil {
		return fmt.Errorf("bind %s: %w", m.source, err)
	}
	if !m.readonly {
		return nil
	}
	return in.at(m.path, func(target string) error { // what is there now is the mount
		return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	})
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
