package localhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

// seedStore gives a host its image store: a tree of hard links to the bundle's,
// but for the databases, which the host will write to. Layers and blobs are never
// written once they are complete.
func (b *Bundle) seedStore(ctx context.Context, store string) error {
	if err := os.MkdirAll(filepath.Dir(store), 0o755); err != nil {
		return err
	}
	return linkTree(ctx, filepath.Join(b.Dir, "store"), store)
}

// linkTree makes dst like src, sharing the content of files.
func linkTree(ctx context.Context, src, dst string) error {
	// Times of directories are set last, since making their entries changes them.
	times := map[string]time.Time{}
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dst, rel)
		if d.IsDir() {
			mtime, err := copyDir(path, target)
			times[target] = mtime
			return err
		}
		return linkOrCopy(path, target, d.Type())
	})
	if err != nil {
		return err
	}
	for dir, t := range times {
		if err := os.Chtimes(dir, t, t); err != nil {
			return err
		}
	}
	return nil
}

func copyDir(src, dst string) (time.Time, error) {
	st, err := os.Stat(src)
	if err != nil {
		return time.Time{}, err
	}
	if err := os.Mkdir(dst, 0o700); err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), copyAttributes(src, dst)
}

// linkOrCopy links a file, or copies it if it is a database or on another file
// system, or if it has as many links as the file system allows.
func linkOrCopy(src, dst string, mode fs.FileMode) error {
	if mode.IsRegular() && strings.HasSuffix(src, ".db") {
		return copyFile(src, dst, true)
	}
	err := os.Link(src, dst)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) {
		return err
	}
	switch {
	case mode.IsRegular():
		return copyFile(src, dst, false)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, dst); err != nil {
			return err
		}
		return copyOwner(src, dst)
	default:
		return copyNode(src, dst)
	}
}

func copyFile(src, dst string, sync bool) error {
	r, err := os.Open(src)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("copy %s: %w", src, err)
	}
	if sync {
		if err := durable.SyncFile(w); err != nil {
			return err
		}
	}
	return copyAttributes(src, dst)
}

// copyNode copies a device file: overlayfs marks removed files with them.
func copyNode(src, dst string) error {
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return err
	}
	if err := unix.Mknod(dst, st.Mode, int(st.Rdev)); err != nil {
		return err
	}
	return copyAttributes(src, dst)
}

func copyOwner(src, dst string) error {
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return err
	}
	return os.Lchown(dst, int(st.Uid), int(st.Gid))
}

// copyAttributes copies owner, mode and extended attributes, in this order since
// a change of owner clears bits of the mode and capabilities.
func copyAttributes(src, dst string) error {
	if err := copyOwner(src, dst); err != nil {
		return err
	}
	st, err := os.Stat(src)
	if err != nil {
		return err
	}
	if err := os.Chmod(dst, st.Mode()); err != nil {
		return err
	}
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(src, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(src, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(dst, name, value[:n], 0); err != nil {
			return fmt.Errorf("set %s of %s: %w", name, dst, err)
		}
	}
	return nil
}
