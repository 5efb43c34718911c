package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/durable"
)

// files lists what is in the places, and in those of the home directories.
func (c Cleaner) files(homes []string) (entries, error) {
	found := entries{}
	var errs []error
	for _, p := range slices.Concat(places, homePlaces(homes)) {
		if err := c.walk(p, found); err != nil {
			errs = append(errs, fmt.Errorf("look at %s: %w", p.path, err))
		}
	}
	return found, errors.Join(errs...)
}

// elsewhere is the prefix of the fingerprint of a place that a symbolic link leads to.
const elsewhere = "at "

// resolve returns where a path of the host and its root are, without symbolic links; at is empty when there
// is nothing at the path.
func (c Cleaner) resolve(path string) (at, top string, err error) {
	at, err = filepath.EvalSymlinks(c.Root.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	top, err = filepath.EvalSymlinks(c.Root.Path("/"))
	return at, top, err
}

func (c Cleaner) walk(p place, found entries) error {
	at, top, err := c.resolve(p.path)
	if err != nil || at == "" {
		return err
	}
	moved := ""
	if at != filepath.Join(top, p.path) {
		moved = elsewhere + "/" + strings.TrimPrefix(strings.TrimPrefix(at, top), "/")
	}
	if p.home != "" && moved != "" && !strings.HasPrefix(at, filepath.Join(top, p.home)+"/") {
		found[p.path] = moved // a user's link decides neither what is read nor how much
		return nil
	}
	return filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		rest := strings.TrimPrefix(strings.TrimPrefix(file, at), "/")
		name := p.path
		if rest != "" {
			name = strings.TrimSuffix(p.path, "/") + "/" + rest
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		if err != nil {
			return err
		}
		inner, _ := placeOf(name)
		if rest != "" && (p.skips(name) || inner.path != p.path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		is, err := describeAs(file, d, p)
		if err != nil {
			return unlessUnnamable(err, d)
		}
		if rest == "" {
			is = behind(moved, is, d)
		}
		found[name] = is
		if d.IsDir() && (p.only || p.shallow && rest != "") {
			return fs.SkipDir
		}
		return nil
	})
}

// behind is the fingerprint of a place that a link leads to: of a file also what it is, as nothing below it is recorded.
func behind(moved, is string, d fs.DirEntry) string {
	switch {
	case moved == "":
		return is
	case d.IsDir():
		return moved
	}
	return moved + " " + is
}

// skips says whether what is at a path below the place is not recorded.
func (p place) skips(name string) bool {
	return len(p.extensions) > 0 && !slices.Contains(p.extensions, path.Ext(name)) || isUnrecorded(name)
}

// unlessUnnamable is the error of reading a file that a walk found: of one that went meanwhile, or has too long a path, its directory is known.
func unlessUnnamable(err error, d fs.DirEntry) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENAMETOOLONG) && d.IsDir():
		return fs.SkipDir
	case errors.Is(err, unix.ENAMETOOLONG):
		return nil
	}
	return err
}

// candidate is a file whose content may be kept. Those of network plugins come first, and those of /etc before others.
type candidate struct {
	rank int
	name string
}

func rankOf(name string) int {
	switch p, _ := placeOf(name); {
	case p.plugin:
		return 0
	case p.path == "/etc":
		return 1
	default:
		return 2
	}
}

// contents keeps what can be put back: small files that everybody may read. Those that the agent
// itself replaces are kept whatever they are: see Keep.
func (c Cleaner) contents(files entries) (map[string][]byte, error) {
	var candidates []candidate
	for name, is := range files {
		if sum, read := contentOf(is); !read || sum == unread || strings.HasPrefix(name, "/usr/lib/") || strings.HasPrefix(name, packageLists+"/") || below(trustMade, name) || below(trustSources, name) {
			continue // a package has those of /usr, and brings its lists; certificates are made of others
		}
		if mode, _, _ := strings.Cut(strings.TrimPrefix(is, "file "), " "); len(mode) >= 3 && mode[len(mode)-1] >= '4' {
			candidates = append(candidates, candidate{rankOf(name), name})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name)) })
	all, size := map[string][]byte{}, 0
	for _, k := range candidates {
		if size > maxContents-maxContent {
			break // others are compared, and named when they are not what they were
		}
		info, err := os.Lstat(c.Root.Path(k.name))
		if err != nil || info.Size() > maxContent {
			continue
		}
		var content []byte
		err = durable.WithParent(string(c.Root), k.name, func(d *durable.Dir, file string) (err error) {
			content, _, err = d.ReadFile(file, maxContent)
			return err
		})
		if err != nil {
			return nil, err
		}
		all[k.name], size = content, size+len(content)
	}
	return all, nil
}

// fileTrace is that of the places.
func (c Cleaner) fileTrace(ctx context.Context, state journal.State, rec *record) trace {
	written := map[string]bool{}
	for _, name := range append(writtenPaths(state), keptPaths(state)...) {
		written[name] = true
	}
	packages := packageFiles{before: rec}
	var software installed
	// What is behind a mount that is named itself is not: it is a part of whatever was mounted.
	named := sync.OnceValue(func() map[string]bool {
		points := map[string]bool{}
		all, _ := c.changes(ctx, c.mountTrace(), rec) // its own trace has the error
		for _, ch := range all {
			if !sameMount(ch.before, ch.now) {
				points[mountPoint(ch.name)] = true
			}
		}
		return points
	})
	return trace{
		kind: kindFile, word: "file", gone: true, look: func(context.Context) (entries, error) {
			homes, err := c.homesOf(rec)
			if err != nil {
				return nil, err
			}
			return c.files(homes)
		},
		adopted: func(name, _ string, _ []netip.Prefix) bool { return ofAdopted(name) },
		own: func(ch change, before, now entries) bool {
			p, _ := placeOf(ch.name)
			switch {
			case written[ch.name], covered(ch.name, named()) != "":
				return true // it has a trace of its own
			case !rec.has(p), ch.before != "" && rec.same(ch.before, ch.now):
				return true
			case firstAccount(p, ch):
				return true
			case ofAgent(ch.name):
				// The operator changes it, and an update; what a bootstrap changes it is no word of theirs.
				made, known := madeOf(state, ch.name)
				return state.Made != nil && (!known || !sameFile(made, ch.now))
			case programOf(state, ch.name), software.own(c, ch):
				return true
			case p.added && ch.name != p.path && ch.before != "" && !strings.HasPrefix(ch.before, elsewhere) && !strings.HasPrefix(ch.now, elsewhere):
				return true
			case p.plugin:
				return false
			}
			return packages.own(ctx, c, ch, before, now)
		},
		inside: func(name string, came func(string) bool) bool { return came(path.Dir(name)) },
		mine:   func(ch change) bool { return rec.puttableBack(state, ch) },
		say: func(ch change) string {
			word := "file"
			if strings.HasPrefix(ch.now, "dir ") {
				word = "directory"
			}
			return trace{word: word}.words(ch)
		},
		remove:  func(ctx context.Context, names []string) error { return c.removeFiles(ctx, names, rec) },
		restore: func(ctx context.Context, was entries) error { return c.restoreFiles(ctx, was, rec) },
	}
}

// firstAccount says whether a file is there since the first account of its kind came.
func firstAccount(p place, ch change) bool {
	return p.only && ch.before == "" && strings.HasPrefix(ch.now, "file ")
}

// ofAdopted says whether a file of a host with a running node is the node's: state of network plugins, and
// their configurations but those of other container engines.
func ofAdopted(name string) bool {
	if rest, ok := strings.CutPrefix(name, cniConfigs+"/"); ok {
		first, _, _ := strings.Cut(rest, "/")
		return !slices.ContainsFunc(foreignCNIConfigs, func(p string) bool { ok, _ := path.Match(p, first); return ok })
	}
	return ofPluginAlone(name) || ofPodNamespace(name) || below(adoptedPlaces, name)
}

// adoptedPlaces are those of plugins in directories that an operator uses, too.
var adoptedPlaces = []string{"/sys/fs/bpf/calico", "/sys/fs/bpf/cilium", "/sys/fs/bpf/tc/globals", "/etc/calico", "/etc/cni/multus", "/etc/sysctl.d/99-zzz-override_cilium.conf"}

// ofPluginAlone says whether a path is at or below a place that no operator uses.
func ofPluginAlone(name string) bool {
	p, ok := placeOf(name)
	return ok && !slices.Contains(sharedPlaces, p.path) && slices.ContainsFunc(pluginPlaces, func(of place) bool { return of.path == p.path })
}

// sharedPlaces are those in which an operator keeps things, too.
var sharedPlaces = []string{"/run/netns", "/sys/fs/bpf"}

// has says whether a record has what is in a place.
func (r *record) has(p place) bool { return r == nil || p.since <= r.Version }

// same compares a fingerprint of the record with one of now.
func (r *record) same(before, now string) bool {
	if r == nil || r.Version == 0 {
		return sameFile(before, now)
	}
	if r.Version < 4 && strings.HasPrefix(before, elsewhere) && strings.HasPrefix(now, before+" ") {
		return true // it did not record what a file is that a link leads to
	}
	return withoutInode(before) == withoutInode(now)
}

// puttableBack says whether a reset may remove a file that came, or write one that changed.
func (r *record) puttableBack(state journal.State, ch change) bool {
	p, _ := placeOf(ch.name)
	_, kept := r.content(ch)
	switch {
	case ch.name == "/":
		return false // it has no directory in which it could be given back
	case p.plugin:
		return ch.before == "" || kept && !p.added
	case ch.before == "" && strings.HasPrefix(ch.now, "dir ") && !p.shallow:
		return true // goes only when it is empty
	default:
		made, known := madeOf(state, ch.name)
		return known && sameFile(made, ch.now) && (ch.before == "" || kept)
	}
}

// content returns what a file was, for one that changed or went. A link, a directory, a pipe or a device is all
// in its fingerprint, and so is a file that has changed only its mode or owner.
func (r *record) content(ch change) ([]byte, bool) {
	if r == nil || ch.before == "" {
		return nil, false
	}
	switch {
	case strings.HasPrefix(ch.before, elsewhere):
		return nil, false
	case strings.HasPrefix(ch.before, "S"):
		return nil, strings.HasPrefix(ch.now, "S") // who listens makes it
	case !strings.HasPrefix(ch.before, "file "):
		return nil, true
	}
	content, ok := r.Contents[ch.name]
	was, read := contentOf(ch.before)
	is, _ := contentOf(ch.now)
	return content, ok || read && was == is || sameSize(ch.before, ch.now)
}

// sameSize says of two fingerprints of a file that was not read whether size and time are the same. Its content may be another one all the
// same: only what a package vouches for, see packageFiles, passes the proof then.
func sameSize(before, now string) bool {
	was, is := strings.Fields(before), strings.Fields(now)
	return len(was) == sizedFields && len(is) == sizedFields && slices.Equal(was[3:7], is[3:7])
}
