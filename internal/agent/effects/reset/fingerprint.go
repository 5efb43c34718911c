package reset

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

const (
	// maxDigested is up to which size in bytes the content of a file is read; a larger one is known by its size
	// and time.
	maxDigested = 32 << 20
	// maxContent and maxContents bound the contents that are kept in a record: of one file, and of
	// all.
	maxContent  = 32 << 10
	maxContents = 2 << 20
)

// sizedFields is how many words the fingerprint of a file has that was not read.
const sizedFields = 9

// describe tells two entries apart: by mode, owner, content and attributes. added leaves out what has to be
// read.
func describe(file string, d fs.DirEntry, added bool) (string, error) {
	return describeAs(file, d, place{added: added})
}

func describeAs(file string, d fs.DirEntry, p place) (string, error) {
	is, fd, err := statOf(file, !p.added && (d.IsDir() || d.Type().IsRegular()))
	if err != nil {
		return "", err
	}
	if fd >= 0 {
		defer func() { _ = unix.Close(fd) }()
	}
	mode := modeOf(is.Mode)
	who := fmt.Sprintf("%o %d:%d", mode&^fs.ModeType, is.Uid, is.Gid)
	switch {
	case mode&fs.ModeSymlink != 0:
		return describeLink(file, is, p)
	case !mode.IsDir() && !mode.IsRegular():
		attributes, err := inAWord(durable.AttributesAt(file))
		return fmt.Sprintf("%s %s %d %s", mode.Type(), who, is.Rdev, attributes), err
	case fd < 0 && mode.IsDir():
		return "dir " + who, nil
	case fd < 0:
		return "file " + who, nil
	}
	attributes, err := inAWord(durable.AttributesOf(fd))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case mode.IsDir():
		return "dir " + who + " " + attributes, nil
	case p.only:
		return "file " + who + " " + unread + " " + attributes, nil
	case (is.Size > maxDigested || p.sized) && !p.whole:
		// Whoever changes it can set the one time back, but not the other.
		return fmt.Sprintf("file %s %d bytes of %d %d %s", who, is.Size, is.Mtim.Nano(), is.Ctim.Nano(), attributes), nil
	}
	sum, err := digestOf(fd, int(is.Size))
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: file, Err: err}
	}
	if is.Nlink > 1 {
		attributes += fmt.Sprintf("%s%d", inode, is.Ino)
	}
	return "file " + who + " " + sum + " " + attributes, nil
}

// statOf opens a file that is to be read; fd is negative for others.
func statOf(file string, read bool) (is unix.Stat_t, fd int, err error) {
	if !read {
		if err := unix.Lstat(file, &is); err != nil {
			return is, -1, &fs.PathError{Op: "lstat", Path: file, Err: err}
		}
		return is, -1, nil
	}
	// An os.File takes twice as long, and so does to find it by name once more; there are many files.
	fd, err = unix.Open(file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return is, -1, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	if err := unix.Fstat(fd, &is); err != nil {
		return is, -1, errors.Join(&fs.PathError{Op: "open", Path: file, Err: err}, unix.Close(fd))
	}
	return is, fd, nil
}

// describeLink has owner and attributes of a symbolic link only where they are not what a link of root's has: it is
// "link target", or "link@UID:GID attributes target". Those of a file that is kept may be in a directory of a user, where
// root makes links of its own alone.
func describeLink(file string, is unix.Stat_t, p place) (string, error) {
	target, err := os.Readlink(file)
	if err != nil || p.whole || p.added {
		return "link " + target, err
	}
	attributes, err := inAWord(durable.AttributesAt(file))
	if err != nil || attributes == plain && is.Uid == 0 && is.Gid == 0 {
		return "link " + target, err
	}
	return fmt.Sprintf("link@%d:%d %s %s", is.Uid, is.Gid, attributes, target), nil
}

// linkOf reads the fingerprint of a link.
func linkOf(is string) (target string, uid, gid int, attributes string, ok bool) {
	if target, ok = strings.CutPrefix(is, "link "); ok {
		return target, 0, 0, plain, true
	}
	f := strings.SplitN(is, " ", 3)
	if len(f) < 3 {
		return "", 0, 0, "", false
	}
	_, err := fmt.Sscanf(f[0], "link@%d:%d", &uid, &gid)
	return f[2], uid, gid, f[1], err == nil
}

// modeOf is a mode of the kernel as package fs has it.
func modeOf(mode uint32) fs.FileMode {
	is := fs.FileMode(mode & 0o777)
	if mode&unix.S_ISUID != 0 {
		is |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		is |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		is |= fs.ModeSticky
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return is
	case unix.S_IFDIR:
		return is | fs.ModeDir
	case unix.S_IFLNK:
		return is | fs.ModeSymlink
	case unix.S_IFIFO:
		return is | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return is | fs.ModeSocket
	case unix.S_IFBLK:
		return is | fs.ModeDevice
	case unix.S_IFCHR:
		return is | fs.ModeDevice | fs.ModeCharDevice
	}
	return is | fs.ModeIrregular
}

// unread stands for the content of a file of which it does not count.
const unread = "any"

// plain is a file or directory without attributes.
const plain = "-"

// inAWord puts the attributes of a file into a word.
func inAWord(a durable.Attributes, err error) (string, error) {
	if err != nil || !a.Immutable && !a.AppendOnly && len(a.Extended) == 0 {
		return plain, err
	}
	a.Extended = each(a.Extended, text, same[[]byte])
	is, err := json.Marshal(a)
	if len(is) > maxAttributes {
		sum := sha256.Sum256(is)
		is = sum[:]
	}
	return "+" + base64.RawURLEncoding.EncodeToString(is), err
}

// maxAttributes bounds attributes that can be restored, in bytes; more are compared only.
const maxAttributes = 1 << 10

// sameFile compares two fingerprints; before may be that of an agent that recorded less. That a file gets another name,
// or loses one, leaves the file what it is.
func sameFile(before, now string) bool {
	if before, now = withoutInode(before), withoutInode(now); before == now {
		return true
	}
	if target, ok := strings.CutPrefix(before, "link "); ok {
		is, _, _, _, link := linkOf(now)
		return link && is == target
	}
	b, n := strings.Fields(before), strings.Fields(now)
	return len(b) >= 3 && !strings.HasPrefix(before, "link@") && len(n) > len(b) && slices.Equal(b, n[:len(b)])
}

// inode begins the word for the inode of a file with several names.
const inode = " inode="

func withoutInode(is string) string {
	if at := strings.LastIndex(is, inode); at > 0 && strings.HasPrefix(is, "file ") {
		return is[:at]
	}
	return is
}

// contentOf is the digest in the fingerprint of a file that was read.
func contentOf(is string) (string, bool) {
	f := strings.Fields(withoutInode(is))
	if len(f) < 4 || len(f) > 5 || f[0] != "file" {
		return "", false
	}
	return f[3], true
}

// buffers are for reading files, of which there are many.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// digestOf reads a file of that size.
func digestOf(fd, size int) (string, error) {
	buffer := buffers.Get().(*[64 << 10]byte) //nolint:forcetypeassert // it has no others
	defer buffers.Put(buffer)
	sum, read := sha256.New(), 0
	for limit := max(size, maxDigested); read < limit; {
		n, err := unix.Read(fd, buffer[:min(len(buffer), limit-read)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, _ = sum.Write(buffer[:n])
		if read += n; n == 0 || read == size {
			break // what is written from now on, the next look sees
		}
	}
	return base64.RawStdEncoding.EncodeToString(sum.Sum(nil)[:12]), nil
}
