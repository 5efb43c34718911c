package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// writers are the permission bits by which others than the owner write.
	writers = 0o022
	// maxLinks is the number of links that the kernel follows; see path_resolution(7).
	maxLinks = 40
	// maxTries bounds how often a name is looked up again that changed while it was opened.
	maxTries = 16
	// nobody is the user of a walk that followed no link of a user.
	nobody = -1
)

// LinkError reports a symbolic link that root does not follow, because another user made it or can
// replace it.
type LinkError struct {
	// Path leads through Link, which belongs to user UID.
	Path, Link string
	UID        int
}

// Error implements error.
func (e *LinkError) Error() string {
	return fmt.Sprintf("%s leads through %s, a symbolic link of user %d that root does not follow; use a path without the link, or replace it by what it leads to", e.Path, e.Link, e.UID)
}

// errDangling is a last name that is a link to something that does not exist.
var errDangling = errors.New("dangling link")

// WithParent calls do with the directory of an absolute path and the last name of the path, which
// may be a link or missing. root stands for "/" of the path and is trusted; empty means "/".
//
// The walk goes from open directory to open directory. It follows a link of root in a directory that
// only root writes to. It follows a link in a user's own directory only to a directory of the same
// user, where root changes nothing that the user could not. Any other link is a *LinkError. The user
// of the process counts as root.
func WithParent(root, path string, do func(d *Dir, name string) error) error {
	return with(&walk{root: root, path: path}, do)
}

// WithTarget is WithParent that follows the last name of the path, too, if it is a link to
// something that exists.
func WithTarget(root, path string, do func(d *Dir, name string) error) error {
	err := with(&walk{root: root, path: path, target: true}, do)
	if errors.Is(err, errDangling) {
		return WithParent(root, path, do)
	}
	return err
}

// WithDir calls do with the directory at an absolute path. The walk is that of WithTarget.
func WithDir(root, path string, do func(d *Dir) error) error {
	w := &walk{root: root, path: path}
	defer w.back(0)
	err := w.begin()
	for err == nil && len(w.rest) > 0 {
		err = w.step()
	}
	if err == nil {
		err = w.arrived()
	}
	if err != nil {
		return err
	}
	return do(w.at())
}

// MakeParents makes the missing directories above the last name of an absolute path, as Dir.Mkdir
// does. The walk is that of WithParent.
func MakeParents(root, path string, perm fs.FileMode, uid, gid int) error {
	w := &walk{root: root, path: path, missing: func(d *Dir, name string) error { return d.Mkdir(name, perm, uid, gid) }}
	return with(w, func(*Dir, string) error { return nil })
}

// RemoveIn removes what is at an absolute path, as Dir.Remove does. The walk is that of WithParent. A
// path that is not there is no error.
func RemoveIn(root, path string) error {
	return unlessMissing(WithParent(root, path, (*Dir).Remove))
}

// ReadAny reads a regular file of at most a number of bytes, and follows links of all users. The
// content must not be shown to a user, or written to a file of one.
func ReadAny(root, path string, most int64) (data []byte, err error) {
	err = with(&walk{root: root, path: path, target: true, any: true}, func(d *Dir, name string) error {
		f, _, err := d.peek(name)
		if err == nil {
			data, err = readAll(f, most)
		}
		return err
	})
	return data, err
}

// Visit calls visit with each part of an absolute path that decides what is there, from "/" on: the
// directories, the links, and what is at the end. It follows links of all users, and returns the path
// without links. If a name does not exist, the error is fs.ErrNotExist and the path that of its
// directory.
func Visit(path string, visit func(at string, info fs.FileInfo) error) (string, error) {
	w := &walk{path: path, any: true, visit: visit}
	defer w.back(0)
	err := w.begin()
	for err == nil && len(w.rest) > 0 {
		err = w.step()
	}
	if len(w.open) == 0 {
		return "", err
	}
	return filepath.Join(w.at().path, w.file), err
}

func with(w *walk, do func(d *Dir, name string) error) error {
	defer w.back(0)
	name, err := w.parent()
	if err != nil {
		return err
	}
	return do(w.at(), name)
}

// walk follows a path from directory to directory.
type walk struct {
	root, path string
	// target: the last name is followed, too. any: links of all users are followed.
	target, any bool
	// missing makes a directory that does not exist; nil: that is an error.
	missing func(d *Dir, name string) error
	// visit sees each part of the way; nil: nobody does. file is what is at the end, if that is no
	// directory.
	visit func(at string, info fs.FileInfo) error
	file  string

	// open are the directories from root to where the walk is, and rest are the next names.
	open []*Dir
	rest []string
	// links counts those that were followed, and user owns the ones that are not root's, of which via
	// is the first.
	links, user int
	via         string
	// last: the last name of the path was a link.
	last bool
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

func (w *walk) at() *Dir { return w.open[len(w.open)-1] }

// back closes all but the first directories.
func (w *walk) back(keep int) {
	for len(w.open) > keep {
		_ = w.at().root.Close()
		w.open = w.open[:len(w.open)-1]
	}
}

func (w *walk) begin() error {
	w.user, w.rest = nobody, names(w.path)
	d := &Dir{path: filepath.Clean("/" + w.root), trusted: true, exclusive: true}
	var err error
	if d.root, err = os.OpenRoot(d.path); err != nil {
		return err
	}
	w.open = append(w.open, d)
	if d.info, err = d.root.Stat("."); err != nil {
		return err
	}
	return w.see(d.path, d.info)
}

func (w *walk) see(at string, info fs.FileInfo) error {
	if w.visit == nil {
		return nil
	}
	return w.visit(at, info)
}

// parent goes to the directory of the last name, and returns that name.
func (w *walk) parent() (string, error) {
	if err := w.begin(); err != nil {
		return "", err
	}
	for len(w.rest) > 0 {
		if name := w.rest[0]; len(w.rest) == 1 && name != ".." {
			info, err := w.at().root.Lstat(name)
			switch {
			case w.last && errors.Is(err, fs.ErrNotExist):
				return "", errDangling
			case !w.target || err != nil || info.Mode()&fs.ModeSymlink == 0:
				return name, w.arrived()
			}
			w.last = true
		}
		if err := w.step(); w.last && errors.Is(err, fs.ErrNotExist) {
			return "", errDangling
		} else if err != nil {
			return "", err
		}
	}
	return "", &fs.PathError{Op: "open", Path: w.path, Err: syscall.EISDIR}
}

// step goes to the next name.
func (w *walk) step() error {
	name, at := w.rest[0], w.at()
	w.rest = w.rest[1:]
	if name == ".." {
		w.back(max(1, len(w.open)-1)) // not by "..": somebody may have moved the directory
		return nil
	}
	for try := range maxTries {
		info, err := at.root.Lstat(name)
		switch {
		case w.missing != nil && (errors.Is(err, fs.ErrNotExist) || err == nil && try == 0 && unfinished(info)):
			if err := w.make(at, name); err != nil {
				return err
			}
			continue
		case err != nil:
			return at.wrap(err, name)
		case info.Mode()&fs.ModeSymlink != 0:
			if err := w.see(at.Path(name), info); err != nil {
				return err
			}
			return w.follow(name, info)
		case !info.IsDir() && w.visit != nil && len(w.rest) == 0:
			w.file = name
			return w.visit(at.Path(name), info)
		case !info.IsDir():
			return at.wrap(syscall.ENOTDIR, name)
		}
		d, err := at.enter(name)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		return w.entered(d)
	}
	return at.wrap(syscall.EAGAIN, name)
}

// make makes a directory that is missing.
func (w *walk) make(at *Dir, name string) error {
	if err := w.arrived(); err != nil {
		return err
	}
	return w.missing(at, name)
}

// entered continues in a directory.
func (w *walk) entered(d *Dir) error {
	w.open = append(w.open, d)
	if w.user != nobody && uidOf(d.info) != w.user && d.info.Mode().Perm()&1 == 0 {
		return &LinkError{Path: w.path, Link: w.via, UID: w.user} // the user could not go there
	}
	return w.see(d.path, d.info)
}

// follow puts the names of a link's target in front of the others.
func (w *walk) follow(name string, link fs.FileInfo) error {
	at := w.at()
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "open", Path: w.path, Err: syscall.ELOOP}
	}
	if !w.any && (!at.exclusive || !isRoot(uidOf(link))) {
		owner := uidOf(at.info)
		if isRoot(owner) || at.info.Mode().Perm()&writers != 0 || uidOf(link) != owner && !isRoot(uidOf(link)) || w.user != nobody && w.user != owner {
			return &LinkError{Path: w.path, Link: at.Path(name), UID: uidOf(link)}
		}
		w.user, w.via = owner, cmp.Or(w.via, at.Path(name))
	}
	target, err := at.root.Readlink(name)
	if err != nil {
		return at.wrap(err, name)
	}
	if filepath.IsAbs(target) {
		if below, ok := strings.CutPrefix(target, w.open[0].path+"/"); ok {
			target = below
		}
		w.back(1)
	}
	w.rest = append(names(target), w.rest...)
	return nil
}

// arrived refuses a directory that links of a user led to and that is not the user's own.
func (w *walk) arrived() error {
	if at := w.at(); w.user != nobody && uidOf(at.info) != w.user {
		return &LinkError{Path: w.path, Link: w.via, UID: w.user}
	}
	return nil
}

// enter opens a directory. It returns nil if the name stands for something else by now.
func (d *Dir) enter(name string) (*Dir, error) {
	// With "/.", the name is opened as a directory only: to open a pipe could wait for ever.
	root, err := d.root.OpenRoot(name + "/.")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, d.wrap(err, name)
	}
	in := &Dir{root: root, path: d.Path(name)}
	if in.info, err = root.Stat("."); err != nil {
		return nil, errors.Join(d.wrap(err, name), root.Close())
	}
	// OpenRoot follows links that stay in the directory.
	if now, err := d.root.Lstat(name); err != nil || !os.SameFile(now, in.info) {
		return nil, root.Close()
	}
	others := in.info.Mode().Perm()&writers != 0
	in.trusted = d.trusted && isRoot(uidOf(in.info)) && (!others || in.info.Mode()&fs.ModeSticky != 0)
	in.exclusive = in.trusted && !others
	return in, nil
}

func isRoot(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// ours is the user or group that a file is given to: where the user of the process stands for root,
// what root gets is its own already.
func ours(id int) int {
	if id == 0 && os.Geteuid() != 0 {
		return Keep
	}
	return id
}

func uidOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return nobody
}

func linksOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // it has 32 bits on other processors
	}
	return 1
}
