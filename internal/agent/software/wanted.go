package software

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// store holds the components, each below its digest.
const store = "/opt/slipway/store"

func storePath(c hostbundle.Component) string { return path.Join(store, c.Layer.Encoded()) }

// wanted lists what the host shall have for all releases that stay, with the directories above
// it, by path. Where releases differ, as in the containerd that units start, the one
// installed last has its way.
func wanted(releases []Release) []Entry {
	byPath := map[string]Entry{}
	for _, r := range releases {
		if r.State == StateRemoving {
			continue
		}
		components := map[string]hostbundle.Component{}
		for _, c := range r.Components {
			components[c.Name] = c
			byPath[storePath(c)] = Entry{Path: storePath(c), Kind: KindComponent, Digest: c.Layer, component: c}
		}
		for _, d := range r.Directories {
			byPath[d] = Entry{Path: d, Kind: KindState}
		}
		for _, d := range r.SharedDirectories {
			byPath[d] = Entry{Path: d, Kind: KindDirectory}
		}
		for _, f := range r.Files {
			byPath[f.Path] = Entry{Path: f.Path, Kind: KindFile, Digest: digest.FromString(f.Content), file: f}
		}
		for _, l := range r.Links {
			byPath[l.Path] = Entry{Path: l.Path, Kind: KindLink, Target: target(l, components)}
		}
	}
	for _, p := range slices.Collect(maps.Keys(byPath)) {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			if _, known := byPath[dir]; !known {
				byPath[dir] = Entry{Path: dir, Kind: KindDirectory}
			}
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
}

// target is relative within /opt/slipway, so that it holds whatever stands for / of the host. A link
// from elsewhere is absolute: /usr/local may be a link to a directory of another depth.
func target(l hostbundle.Link, components map[string]hostbundle.Component) string {
	if l.Component == "" {
		return l.Target
	}
	absolute := path.Join(storePath(components[l.Component]), l.Target)
	if !below(l.Path, path.Dir(store)) {
		return absolute
	}
	relative, err := filepath.Rel(path.Dir(l.Path), absolute)
	if err != nil {
		panic(err) // both are absolute
	}
	return relative
}

// below reports whether a path is the directory or in it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
