package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Snapshot is the file system of a machine: what there is at each path.
type Snapshot map[string]string

// snapshotScript prints kind, mode, owner and target of everything on the disk. A file has
// its digest, too, or below /usr, where nine tenths of all bytes are, its size and the time
// of its last change, which no program can set: an emulated processor takes half a minute
// for the digests of those.
const snapshotScript = `set -eu
cd /
find . -xdev -printf 'entry %P\0%y %m %U:%G %l\0'
find usr -xdev -type f -printf 'content %p\0%s %C@\0'
find . -xdev -path ./usr -prune -o -type f -print0 | xargs -0 b2sum --length=128 --zero -- | sed -z 's,^\([0-9a-f]*\)  \./\(.*\),content \2\x00\1,'
`

// volatile is what a machine that runs changes by itself.
var volatile = []string{"tmp", "var/tmp", "var/log", "var/cache", "var/lib/systemd", "var/lib/private", "root/.ssh"}

// Snapshot reads all of the disk.
func (m *Machine) Snapshot(ctx context.Context) (Snapshot, error) {
	printed, err := m.Run(ctx, snapshotScript)
	if err != nil {
		return nil, err
	}
	return parseSnapshot(printed)
}

// parseSnapshot reads pairs that end with NUL: a path may hold anything else.
func parseSnapshot(printed string) (Snapshot, error) {
	s := Snapshot{}
	fields := strings.Split(strings.TrimSuffix(printed, "\x00"), "\x00")
	if len(fields)%2 != 0 {
		return nil, fmt.Errorf("the list of files is cut off after %d fields", len(fields))
	}
	for pair := range slices.Chunk(fields, 2) {
		kind, path, _ := strings.Cut(pair[0], " ")
		switch kind {
		case "entry":
			s[path] = pair[1]
		case "content":
			s[path] += pair[1]
		default:
			return nil, fmt.Errorf("the list of files has %q", pair[0])
		}
	}
	return s, nil
}

// Since lists what is there, is gone or differs since an earlier look, without what is
// volatile.
func (s Snapshot) Since(before Snapshot) []string {
	var changes []string
	for path, now := range s {
		was, there := before[path]
		switch {
		case isVolatile(path) || there && was == now:
		case there:
			changes = append(changes, fmt.Sprintf("changed: /%s: %s, was %s", path, now, was))
		default:
			changes = append(changes, "left behind: /"+path)
		}
	}
	for path := range before {
		if _, there := s[path]; !there && !isVolatile(path) {
			changes = append(changes, "gone: /"+path)
		}
	}
	slices.Sort(changes)
	return changes
}

func isVolatile(path string) bool {
	return slices.ContainsFunc(volatile, func(v string) bool { return path == v || strings.HasPrefix(path, v+"/") })
}
