package reset

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
)

// removeFiles takes away what came; what is in a directory before it. One at which something is
// mounted, or that a link leads to which was not there before, stays, and is named.
func (c Cleaner) removeFiles(ctx context.Context, names []string, before entries) error {
	mounted, err := c.mounts()
	if err != nil {
		return err
	}
	var errs []error
	now, gone := map[string]string{}, entries{}
	for _, name := range slices.Backward(slices.Sorted(slices.Values(names))) {
		p, _ := placeOf(name)
		if point := mountOf(name, p.path, mounted); point != "" {
			errs = append(errs, fmt.Errorf("%s: something is mounted at %s", name, point))
			continue
		}
		if _, looked := now[p.path]; !looked {
			here := entries{}
			errs = append(errs, c.walk(place{path: p.path, only: true, added: true}, here))
			now[p.path] = here[p.path]
		}
		if strings.HasPrefix(now[p.path], elsewhere) && now[p.path] != before[p.path] {
			errs = append(errs, fmt.Errorf("%s: %s is reached by a symbolic link", name, p.path))
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

// mountOf is the mount point in a place at or above a path; empty for none.
func mountOf(name, place string, mounted entries) string {
	for dir := name; len(dir) > len(place); dir = path.Dir(dir) {
		if mounted[dir] != "" {
			return dir
		}
	}
	return ""
}

// restoreFiles gives files the content, mode and owner that they had.
func (c Cleaner) restoreFiles(ctx context.Context, was entries, rec *record) error {
	var errs []error
	for _, name := range slices.Sorted(keys(was)) {
		content, _ := rec.content(change{name: name, before: was[name]})
		err := c.restoreFile(name, was[name], content)
		if err != nil {
			errs = append(errs, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	c.restartReaders(ctx, was)
	return errors.Join(errs...)
}

// restoreFile makes a path what its fingerprint says. nil leaves the content of a file.
func (c Cleaner) restoreFile(path, was string, content []byte) error {
	return durable.WithParent(string(c.Root), path, func(d *durable.Dir, name string) error {
		if target, ok := strings.CutPrefix(was, "link "); ok {
			return d.Link(target, name)
		}
		f := strings.Fields(was)
		var bits uint32
		var uid, gid int
		if len(f) < 3 {
			return fmt.Errorf("not known: %s", was)
		}
		if _, err := fmt.Sscanf(f[1]+" "+f[2], "%o %d:%d", &bits, &uid, &gid); err != nil {
			return err
		}
		mode := fs.FileMode(bits)
		var err error
		if _, missing := d.Lstat(name); f[0] == "dir" && errors.Is(missing, fs.ErrNotExist) {
			err = d.Mkdir(name, mode, uid, gid)
		} else if f[0] != "dir" && content != nil {
			err = d.Replace(name, content, mode, uid, gid)
		} else {
			err = d.SetOwner(name, mode, uid, gid)
		}
		if last := f[len(f)-1]; err == nil && (last == plain || strings.HasPrefix(last, "+")) {
			err = restoreAttributes(d, name, last)
		}
		return err
	})
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
	}
	return d.SetAttributes(name, a)
}
