package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Keep leaves the owner or the group of a file that Replace writes to the process.
const Keep = -1

// Temporary is the prefix of the names that Write and WriteFrom use beside the file of a name:
// what an interrupted one leaves behind.
func Temporary(name string) string { return "." + name + "." }

// Staged is the path at which Replace, Link and WriteJSON prepare what is to be at path. It is in
// the same directory, and hidden, so that no service reads it as one of its drop-ins.
func Staged(path string) string {
	const prefix, longest = ".slipway-", 255 // NAME_MAX
	name := filepath.Base(path)
	if len(prefix+name) > longest {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return filepath.Join(filepath.Dir(path), prefix+name)
}

// Write replaces the file at path by data with the given permissions, owned by the caller.
// Missing parent directories are an error. Several processes may write one path.
func Write(path string, data []byte, perm fs.FileMode) error {
	if err := WriteFrom(path, perm, contents(data)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteFrom is Write for content that fill writes. The file appears only if fill succeeds.
func WriteFrom(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	if err := before(Create, path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), Temporary(filepath.Base(path))+"*")
	if err != nil {
		return err
	}
	if err := finish(f, perm, Keep, Keep, fill); err != nil {
		return errors.Join(err, discard(f.Name()))
	}
	if err := Rename(f.Name(), path); err != nil {
		return errors.Join(err, discard(f.Name()))
	}
	return nil
}

// Replace is Write with an owner and a group, which may be Keep. They and the permissions hold
// from the moment at which the content is there.
func Replace(path string, data []byte, perm fs.FileMode, uid, gid int) error {
	return in(path, func(d *Dir, name string) error { return d.Replace(name, data, perm, uid, gid) })
}

// in calls do with the directory of a path that only root, or the user of the process, decides.
func in(path string, do func(d *Dir, name string) error) error {
	dir := filepath.Dir(path)
	root, err := os.OpenRoot(dir + "/.") // so that it opens nothing but a directory
	if err != nil {
		return err
	}
	return errors.Join(do(&Dir{root: root, path: dir}, filepath.Base(path)), root.Close())
}

// Stream writes a file at path itself, in place of one that is there: for names that nobody
// reads before Rename gives the file another. The caller removes what a failed one left.
func Stream(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return in(path, func(d *Dir, name string) error { return d.stage(name, perm, Keep, Keep, fill) })
}

func contents(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// finish fills a new file, waits until it is on the disk and closes it.
func finish(f *os.File, perm fs.FileMode, uid, gid int, fill func(io.Writer) error) error {
	err := fill(f)
	if uid, gid = ours(uid), ours(gid); err == nil && (uid != Keep || gid != Keep) {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(perm) // after Chown, which takes the set-user-ID bit away
	}
	if err == nil {
		err = SyncFile(f)
	}
	return errors.Join(err, f.Close())
}

// SyncFile waits until the content of a file is on the disk: for files that are written piece
// by piece.
func SyncFile(f *os.File) error {
	if err := before(Sync, f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

// discard removes a file that was not finished. It need not be durable: the file has no reader.
func discard(path string) error {
	if err := before(Delete, path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename gives a file, a link or a directory another name. What is in a directory must be on
// the disk already.
func Rename(from, to string) error {
	if err := before(Move, to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return SyncDir(filepath.Dir(to))
	}
	return errors.Join(SyncDir(filepath.Dir(to)), SyncDir(filepath.Dir(from)))
}

// Link makes path a symbolic link to target, in place of a file or a link that is there.
func Link(target, path string) error {
	return in(path, func(d *Dir, name string) error { return d.Link(target, name) })
}

// Mkdir makes a directory with the given permissions, whatever the umask. One that is there
// already keeps its permissions.
func Mkdir(path string, perm fs.FileMode) error {
	return in(path, func(d *Dir, name string) error { return d.Mkdir(name, perm, Keep, Keep) })
}

// Remove removes a file, a link or an empty directory, and what an interrupted Replace or Link
// left beside it. A path that is not there is no error.
func Remove(path string) error { return unlessMissing(in(path, (*Dir).Remove)) }

// RemoveAll removes path with everything in it. A path that is not there is no error.
func RemoveAll(path string) error { return unlessMissing(in(path, (*Dir).RemoveAll)) }

// unlessMissing has nothing to do where the parent is gone, too.
func unlessMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// SyncDir makes changes of a directory's entries durable that something else made.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadJSON reads a file that WriteJSON wrote. found is false, without an error, if there is none.
func ReadJSON(path string, v any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(data, v)
}

// WriteJSON replaces the file at path by v as JSON. It needs a single writer, as Replace does.
func WriteJSON(path string, v any, perm fs.FileMode) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Replace(path, data, perm, Keep, Keep)
}
