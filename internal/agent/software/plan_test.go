package software

import (
	"errors"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
)

func file(path, content string) Entry {
	return Entry{Path: path, Kind: KindFile, Digest: digest.FromString(content)}
}

func link(path, target string) Entry { return Entry{Path: path, Kind: KindLink, Target: target} }

func dir(path string) Entry { return Entry{Path: path, Kind: KindDirectory} }

func TestPlanned(t *testing.T) {
	for name, tt := range map[string]struct {
		recorded, wanted, found []Entry
		steps, owned, kept      []string
		reason                  Reason
	}{
		"directories first, links last": {
			wanted: []Entry{link("/a/l", "f"), file("/a/f", "1"), dir("/a")},
			steps:  []string{"/a", "/a/f", "/a/l"}, owned: []string{"/a", "/a/f", "/a/l"},
		},
		"removed the other way, after what is made": {
			recorded: []Entry{dir("/a"), dir("/a/b"), file("/a/f", "1"), link("/l", "a/f")},
			wanted:   []Entry{link("/l", "b")},
			found:    []Entry{dir("/a"), dir("/a/b"), file("/a/f", "1"), link("/l", "a/f")},
			steps:    []string{"/l", "-/a/f", "-/a/b", "-/a"}, owned: []string{"/l"},
		},
		"what is there already is recorded again": {
			recorded: []Entry{file("/f", "1")}, wanted: []Entry{file("/f", "1")}, found: []Entry{file("/f", "1")}, owned: []string{"/f"},
		},
		"a torn change: either content is ours": {
			recorded: []Entry{file("/f", "1"), file("/f", "2")}, wanted: []Entry{file("/f", "2")}, found: []Entry{file("/f", "1")},
			steps: []string{"/f"}, owned: []string{"/f"},
		},
		"the host's own is not ours": {
			wanted: []Entry{dir("/etc"), file("/etc/f", "1")}, found: []Entry{dir("/etc"), file("/etc/f", "1")},
		},
		"a unit that was disabled and enabled again": {
			recorded: []Entry{link("/etc/wants/u", "../u"), link("/etc/wants/old", "../old")}, wanted: []Entry{link("/etc/wants/u", "../u")},
			found: []Entry{link("/etc/wants/u", "/etc/u"), link("/etc/wants/old", "/etc/old")},
			steps: []string{"-/etc/wants/old"}, owned: []string{"/etc/wants/u"},
		},
		"a link elsewhere": {recorded: []Entry{link("/etc/wants/u", "../u")}, wanted: []Entry{link("/etc/wants/u", "../u")}, found: []Entry{link("/etc/wants/u", "/u")}, reason: ReasonChanged},
		"foreign":          {wanted: []Entry{file("/f", "1")}, found: []Entry{file("/f", "2")}, reason: ReasonForeign},
		"changed":          {recorded: []Entry{file("/f", "1")}, wanted: []Entry{file("/f", "1")}, found: []Entry{file("/f", "2")}, reason: ReasonChanged},
		"changed, unused":  {recorded: []Entry{file("/f", "1")}, found: []Entry{file("/f", "2")}, kept: []string{"/f"}},
		"gone, unused":     {recorded: []Entry{file("/f", "1")}, steps: []string{"-/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]Entry{}
			for _, e := range tt.found {
				found[e.Path] = e
			}
			p, err := planned(tt.recorded, tt.wanted, found)
			if tt.reason != "" {
				var refused *Error
				if !errors.As(err, &refused) || refused.Reason != tt.reason {
					t.Errorf("want %s, got %v", tt.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var steps, owned []string
			for _, s := range p.steps {
				if s.remove {
					s.Path = "-" + s.Path
				}
				steps = append(steps, s.Path)
			}
			for _, e := range p.owned {
				owned = append(owned, e.Path)
			}
			slices.Sort(owned)
			if !slices.Equal(steps, tt.steps) || !slices.Equal(owned, tt.owned) || !slices.Equal(p.kept, tt.kept) {
				t.Errorf("steps %q, owned %q, kept %q", steps, owned, p.kept)
			}
		})
	}
}
