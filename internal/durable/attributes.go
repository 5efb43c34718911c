package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes are what a file has besides content, mode and owner.
type Attributes struct {
	// Immutable files cannot be changed or removed; AppendOnly ones can grow.
	Immutable  bool `json:"immutable,omitempty"`
	AppendOnly bool `json:"appendOnly,omitempty"`
	// Extended are access control lists, capabilities of programs and attributes of users, by name; not
	// what the machine computes itself, such as labels of SELinux.
	Extended map[string][]byte `json:"extended,omitempty"`
}

const (
	flagImmutable  = 0x10 // FS_IMMUTABLE_FL
	flagAppendOnly = 0x20 // FS_APPEND_FL
)

// computed are extended attributes that the kernel and its security modules make.
var computed = []string{"security.selinux", "security.ima", "security.evm", "security.SMACK64"}

// AttributesOf returns those of an open file or directory, by its descriptor. A file system that has none is no error.
func AttributesOf(fd int) (Attributes, error) {
	a := Attributes{}
	flags := inodeFlags(fd)
	a.Immutable, a.AppendOnly = flags&flagImmutable != 0, flags&flagAppendOnly != 0
	names, err := extendedNames(fd)
	for _, name := range names {
		value := make([]byte, 1<<16) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return a, fmt.Errorf("read attribute %s: %w", name, err)
		}
		if a.Extended == nil {
			a.Extended = map[string][]byte{}
		}
		a.Extended[name] = bytes.Clone(value[:n])
	}
	return a, err
}

func inodeFlags(fd int) uint32 {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0
	}
	return flags
}

func extendedNames(fd int) ([]string, error) {
	size, err := unix.Flistxattr(fd, nil)
	if size <= 0 || err != nil {
		return nil, unlessUnsupported(err)
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return nil, unlessUnsupported(err)
	}
	names := strings.Split(strings.TrimRight(string(list[:size]), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool {
		return name == "" || slices.ContainsFunc(computed, func(p string) bool { return strings.HasPrefix(name, p) })
	}), nil
}

func unlessUnsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// SetAttributes gives a file or directory of root's the attributes. In a directory that a user can write to it
// is an error: the user may have moved another file there.
func (d *Dir) SetAttributes(name string, want Attributes) error {
	return d.withInode(name, func(f *os.File) error {
		is, err := AttributesOf(int(f.Fd()))
		if err != nil || is.equal(want) {
			return err
		}
		if !d.exclusive {
			return fmt.Errorf("%s is in a directory that user %d can write to, where root sets no attributes; set them by hand", d.Path(name), uidOf(d.info))
		}
		errs := []error{unlock(f)}
		for name := range is.Extended {
			if _, stays := want.Extended[name]; !stays {
				errs = append(errs, unix.Fremovexattr(int(f.Fd()), name))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want.Extended)) {
			if !bytes.Equal(is.Extended[name], want.Extended[name]) {
				errs = append(errs, unix.Fsetxattr(int(f.Fd()), name, want.Extended[name], 0))
			}
		}
		if want.Immutable || want.AppendOnly {
			flags := inodeFlags(int(f.Fd()))
			if want.Immutable {
				flags |= flagImmutable
			}
			if want.AppendOnly {
				flags |= flagAppendOnly
			}
			errs = append(errs, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("set the attributes of %s: %w", d.Path(name), err)
		}
		return SyncFile(f)
	})
}

func (a Attributes) equal(b Attributes) bool {
	return a.Immutable == b.Immutable && a.AppendOnly == b.AppendOnly && maps.EqualFunc(a.Extended, b.Extended, bytes.Equal)
}

// unlock lets an open file be changed and removed.
func unlock(f *os.File) error {
	flags := inodeFlags(int(f.Fd()))
	if flags&(flagImmutable|flagAppendOnly) == 0 {
		return nil
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags&^uint32(flagImmutable|flagAppendOnly)))
}

// withInode opens a file or directory; anything else has no attributes that count.
func (d *Dir) withInode(name string, do func(*os.File) error) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return d.wrap(err, name)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return d.wrap(err, name)
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return errors.Join(err, d.wrap(fs.ErrNotExist, name))
	}
	return do(f)
}

// unlocked calls do again when it is not permitted, after the entry, what is below it, and the directory itself
// may be changed. Only root can have locked them.
func (d *Dir) unlocked(name string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	_ = d.withInode(".", unlock)
	_ = fs.WalkDir(d.root.FS(), name, func(at string, _ fs.DirEntry, err error) error {
		if err == nil {
			_ = d.withInode(at, unlock)
		}
		return nil
	})
	return do()
}
