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
	a, err := attributes(func(list []byte) (int, error) { return unix.Flistxattr(fd, list) },
		func(name string, value []byte) (int, error) { return unix.Fgetxattr(fd, name, value) })
	flags := inodeFlags(fd)
	a.Immutable, a.AppendOnly = flags&flagImmutable != 0, flags&flagAppendOnly != 0
	return a, err
}

// AttributesAt returns those of a link, a pipe, a device or a socket, which cannot be opened for that.
func AttributesAt(path string) (Attributes, error) {
	return attributes(func(list []byte) (int, error) { return unix.Llistxattr(path, list) },
		func(name string, value []byte) (int, error) { return unix.Lgetxattr(path, name, value) })
}

func attributes(list func([]byte) (int, error), get func(string, []byte) (int, error)) (Attributes, error) {
	a := Attributes{}
	names, err := extendedNames(list)
	for _, name := range names {
		value := make([]byte, 1<<16) // XATTR_SIZE_MAX
		n, err := get(name, value)
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

func extendedNames(of func([]byte) (int, error)) ([]string, error) {
	size, err := of(nil)
	if size <= 0 || err != nil {
		return nil, unlessUnsupported(err)
	}
	list := make([]byte, size)
	if size, err = of(list); err != nil {
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

// SetAttributes gives an entry of root's the attributes. In a directory that a user can write to it is an error: the
// user may have moved another file there.
func (d *Dir) SetAttributes(name string, want Attributes) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return d.wrap(err, name)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return d.setIrregular(name, want)
	}
	return d.withInode(name, func(f *os.File) error {
		fd := int(f.Fd())
		is, err := AttributesOf(fd)
		if err != nil || is.equal(want) {
			return err
		}
		if !d.exclusive {
			return d.notExclusive(name)
		}
		err = errors.Join(unlock(f), setExtended(is, want, func(name string) error { return unix.Fremovexattr(fd, name) },
			func(name string, value []byte) error { return unix.Fsetxattr(fd, name, value, 0) }))
		if want.Immutable || want.AppendOnly {
			flags := inodeFlags(fd)
			if want.Immutable {
				flags |= flagImmutable
			}
			if want.AppendOnly {
				flags |= flagAppendOnly
			}
			err = errors.Join(err, setInodeFlags(fd, flags))
		}
		if err != nil {
			return fmt.Errorf("set the attributes of %s: %w", d.Path(name), err)
		}
		return SyncFile(f)
	})
}

// setIrregular is SetAttributes for what cannot be opened. The kernel takes its name in the open directory.
func (d *Dir) setIrregular(name string, want Attributes) error {
	dir, err := d.root.Open(".")
	if err != nil {
		return d.wrap(err, name)
	}
	defer func() { _ = dir.Close() }()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	is, err := AttributesAt(path)
	if err != nil || is.equal(want) {
		return err
	}
	if !d.exclusive {
		return d.notExclusive(name)
	}
	err = setExtended(is, want, func(name string) error { return unix.Lremovexattr(path, name) },
		func(name string, value []byte) error { return unix.Lsetxattr(path, name, value, 0) })
	if err != nil {
		return fmt.Errorf("set the attributes of %s: %w", d.Path(name), err)
	}
	return d.sync()
}

func (d *Dir) notExclusive(name string) error {
	return fmt.Errorf("%s is in a directory that user %d can write to, where root sets no attributes; set them by hand", d.Path(name), uidOf(d.info))
}

func setExtended(is, want Attributes, remove func(string) error, set func(string, []byte) error) error {
	var errs []error
	for name := range is.Extended {
		if _, stays := want.Extended[name]; !stays {
			errs = append(errs, remove(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Extended)) {
		if !bytes.Equal(is.Extended[name], want.Extended[name]) {
			errs = append(errs, set(name, want.Extended[name]))
		}
	}
	return errors.Join(errs...)
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
	return setInodeFlags(int(f.Fd()), flags&^uint32(flagImmutable|flagAppendOnly))
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
// may be changed. Only root can have locked them. What outlives that, the directory and a file with another name
// elsewhere, is locked again.
func (d *Dir) unlocked(name string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	var relock []func()
	defer func() {
		for _, again := range relock {
			again()
		}
	}()
	again := func(f *os.File) func() {
		flags := inodeFlags(int(f.Fd()))
		return func() { _ = setInodeFlags(int(f.Fd()), flags) }
	}
	if top, err := d.root.Open("."); err == nil {
		relock = append(relock, again(top), func() { _ = top.Close() })
		_ = unlock(top)
	}
	_ = fs.WalkDir(d.root.FS(), name, func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // do says what cannot be done
		}
		_ = d.withInode(at, func(f *os.File) error {
			if inodeFlags(int(f.Fd()))&(flagImmutable|flagAppendOnly) == 0 {
				return nil
			}
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && linksOf(info) > 1 && len(relock) < maxRelocked {
				if held, err := d.root.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
					relock = append(relock, again(held), func() { _ = held.Close() })
				}
			}
			return unlock(f)
		})
		return nil
	})
	return do()
}

// maxRelocked bounds the files that are open at a time to be locked again.
const maxRelocked = 128
