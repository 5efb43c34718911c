package reset

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

// removeFiles takes away what came; what is in a directory before it. One at which something is
// mounted, or that a link or a mount leads to which was not there before, stays, and is named.
func (c Cleaner) removeFiles(ctx context.Context, names []string, rec *record) error {
	mounted, err := c.mounts()
	if err != nil {
		return err
	}
	before, over := rec.of(trace{kind: kindFile}), newMounts(rec, mounted)
	var errs []error
	names = slices.DeleteFunc(names, func(name string) bool {
		point := covered(name, over)
		if point != "" {
			errs = append(errs, fmt.Errorf("%s: something is mounted at %s", name, point))
		}
		return point != ""
	})
	errs = append(errs, c.removeDeep(names, before, mounted))
	gone := entries{}
	for _, name := range slices.Backward(slices.Sorted(slices.Values(names))) {
		p, _ := placeOf(name)
		if point := mountOf(name, p.path, mounted); point != "" {
			errs = append(errs, fmt.Errorf("%s: something is mounted at %s", name, point))
			continue
		}
		if err := c.reached(name, before); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		c.stopUnit(ctx, name)
		gone[name] = "gone"
		err := durable.RemoveIn(string(c.Root), name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	c.restartReaders(ctx, gone)
	return errors.Join(errs...)
}

// deepPath is how long a path is, in bytes, below which there may be more than anybody can name: the kernel takes 4095 bytes.
const deepPath = 3500

// removeDeep removes new directories of plugins with what is too deep in them for a name.
func (c Cleaner) removeDeep(names []string, before, mounted entries) error {
	came := map[string]bool{}
	for _, name := range names {
		came[name] = true
	}
	tops := map[string]bool{}
	for _, name := range names {
		if len(name) > deepPath && pluginPath(name) {
			top := name
			for came[path.Dir(top)] {
				top = path.Dir(top)
			}
			tops[top] = true
		}
	}
	var errs []error
	for top := range tops {
		below := func(point string) bool { return strings.HasPrefix(mountPoint(point)+"/", top+"/") }
		if slices.ContainsFunc(slices.Collect(keys(mounted)), below) {
			continue // that is named
		}
		err := c.reached(top, before)
		if err == nil {
			err = durable.WithParent(string(c.Root), top, func(d *durable.Dir, name string) error { return d.RemoveAll(name) })
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mountOf is the mount point in a place at or above a path; empty for none.
func mountOf(name, place string, mounted entries) string {
	for dir := name; len(dir) > len(place); dir = path.Dir(dir) {
		if mounted[dir] != "" {
			return dir
		}
	}
	return ""
}

// restoreFiles gives files the content, mode and owner that they had. What is above a file comes before it.
func (c Cleaner) restoreFiles(ctx context.Context, was entries, rec *record) error {
	mounted, err := c.mounts()
	if err != nil {
		return err
	}
	over := newMounts(rec, mounted)
	var errs []error
	failed := map[string]bool{}
	for _, name := range slices.Sorted(keys(was)) {
		if failed[path.Dir(name)] {
			failed[name] = true
			continue
		}
		if point := covered(name, over); point != "" {
			failed[name], errs = true, append(errs, fmt.Errorf("restore %s: something is mounted at %s", name, point))
			continue
		}
		content, _ := rec.content(change{name: name, before: was[name]})
		err := c.reached(name, rec.of(trace{kind: kindFile}))
		if err == nil {
			err = c.restoreFile(name, was[name], content)
		}
		if err != nil {
			failed[name], errs = true, append(errs, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	c.restartReaders(ctx, was)
	return errors.Join(errs...)
}

// newMounts are the points at which something else is mounted than at the record.
func newMounts(rec *record, mounted entries) map[string]bool {
	points := map[string]bool{}
	for name, is := range mounted {
		if was := rec.of(trace{kind: kindMount}); was != nil && !sameMount(was[name], is) {
			points[mountPoint(name)] = true
		}
	}
	return points
}

// covered is the new mount that a path is in; empty for none. What is seen there is a part of whatever was mounted, which may be any directory of
// the host, and what was there before is below it.
func covered(name string, over map[string]bool) string {
	for dir := name; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if over[dir] {
			return dir
		}
	}
	return ""
}

// reached says whether a path is where its name says, but for a link above its place that was there before. Whoever put
// another one there since would have a reset write to, or remove, what that leads to.
func (c Cleaner) reached(name string, before entries) error {
	p, _ := placeOf(name)
	at, top, err := c.resolve(path.Dir(name))
	if err != nil || at == "" {
		return err
	}
	want := filepath.Join(top, path.Dir(name))
	if moved, is := strings.CutPrefix(before[p.path], elsewhere); is && name != p.path {
		want = filepath.Join(top, moved, strings.TrimPrefix(path.Dir(name), p.path))
	}
	if at != want && (name != p.path || !strings.HasPrefix(before[p.path], elsewhere)) {
		return fmt.Errorf("%s is reached by a symbolic link", path.Dir(name))
	}
	return nil
}

// restoreFile makes a path what its fingerprint says. nil leaves the content of a file.
func (c Cleaner) restoreFile(path, was string, content []byte) error {
	return durable.WithParent(string(c.Root), path, func(d *durable.Dir, name string) error {
		info, missing := d.Lstat(name)
		if missing == nil && info.IsDir() != strings.HasPrefix(was, "dir ") {
			// A directory must be empty for that: what came in it goes first.
			if err := d.Remove(name); err != nil {
				return err
			}
			info, missing = nil, fs.ErrNotExist
		}
		if target, uid, gid, attributes, ok := linkOf(was); ok {
			return restoreLink(d, name, target, uid, gid, attributes)
		}
		f := strings.Fields(withoutInode(was))
		if len(f) < 3 {
			return fmt.Errorf("not known: %s", was)
		}
		if missing != nil {
			info = nil
		}
		err := restoreKind(d, name, was, f, info, content)
		if last := f[len(f)-1]; err == nil && (last == plain || strings.HasPrefix(last, "+")) {
			err = restoreAttributes(d, name, last)
		}
		return err
	})
}

func restoreLink(d *durable.Dir, name, target string, uid, gid int, attributes string) error {
	err := d.Link(target, name)
	if err == nil && (uid != 0 || gid != 0) {
		err = d.SetLinkOwner(name, uid, gid)
	}
	if err == nil && attributes != plain {
		err = restoreAttributes(d, name, attributes)
	}
	return err
}

// restoreKind makes a name a directory, file or node of the fields of a fingerprint, in which others have left info; nil
// for nothing.
func restoreKind(d *durable.Dir, name, was string, f []string, info fs.FileInfo, content []byte) error {
	var bits uint32
	var uid, gid int
	if _, err := fmt.Sscanf(f[1]+" "+f[2], "%o %d:%d", &bits, &uid, &gid); err != nil {
		return err
	}
	mode := fs.FileMode(bits)
	switch {
	case f[0] == "dir" && info == nil:
		return d.Mkdir(name, mode, uid, gid)
	case f[0] == "file" && content != nil && info != nil && hasInode(was, info):
		return d.Rewrite(name, content, mode, uid, gid)
	case f[0] == "file" && content != nil:
		return d.Replace(name, content, mode, uid, gid)
	case nodes[f[0]] != 0 && len(f) > 3 && (info == nil || describedAs(info) != f[0] || f[3] != deviceOf(info)):
		device, err := strconv.ParseUint(f[3], 10, 64)
		if err != nil {
			return err
		}
		return d.Node(name, nodes[f[0]], device, mode, uid, gid)
	}
	return d.SetOwner(name, mode, uid, gid)
}

// nodes are the kinds of mknod(2) by their fingerprints.
var nodes = map[string]uint32{
	fs.ModeNamedPipe.String(): unix.S_IFIFO, fs.ModeDevice.String(): unix.S_IFBLK, (fs.ModeDevice | fs.ModeCharDevice).String(): unix.S_IFCHR,
}

func describedAs(info fs.FileInfo) string { return info.Mode().Type().String() }

func deviceOf(info fs.FileInfo) string {
	is, _ := info.Sys().(*syscall.Stat_t)
	return strconv.FormatUint(is.Rdev, 10)
}

// hasInode says whether a file is the one of several names that it was, of which the others are to have its content
// back, too.
func hasInode(was string, info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && strings.HasSuffix(was, fmt.Sprintf("%s%d", inode, is.Ino))
}

func restoreAttributes(d *durable.Dir, name, was string) error {
	a := durable.Attributes{}
	if was != plain {
		is, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(was, "+"))
		if err == nil {
			err = json.Unmarshal(is, &a)
		}
		if err != nil {
			return errors.New("its attributes were too many to keep")
		}
		a.Extended = each(a.Extended, untext, same[[]byte])
	}
	return d.SetAttributes(name, a)
}
