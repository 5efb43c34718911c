package software

import (
	"cmp"
	"errors"
	"slices"
)

// step is one change of the host.
type step struct {
	remove bool
	Entry
}

// plan leads from what is on the host to what is wanted.
type plan struct {
	steps []step
	// owned is what is on the host because of this package once the steps are done.
	owned []Entry
	// kept are paths that stay although nothing wants them: somebody changed them.
	kept []string
}

// ranks order the making of entries: a link follows what it leads to. Removal goes the
// other way.
var ranks = map[Kind]int{KindDirectory: 0, KindState: 1, KindComponent: 2, KindFile: 3, KindLink: 4}

// planned compares. recorded is what this package put on the host; found is what is
// there, by path, of everything that is recorded or wanted. The error names everything
// that is in the way.
func planned(recorded, wanted []Entry, found map[string]Entry) (plan, error) {
	ours := map[string][]Entry{}
	for _, e := range recorded {
		ours[e.Path] = append(ours[e.Path], e)
	}
	var p plan
	var errs []error
	still := map[string]bool{}
	for _, e := range wanted {
		still[e.Path] = true
		there, exists := found[e.Path]
		mine := ours[e.Path]
		switch {
		case !exists:
			p.steps = append(p.steps, step{Entry: e})
		case there.same(e):
			if len(mine) == 0 {
				continue // the host's own
			}
		case slices.ContainsFunc(mine, there.same) || e.Kind == KindComponent && there.Kind == KindComponent:
			p.steps = append(p.steps, step{Entry: e})
		case len(mine) > 0:
			errs = append(errs, refuse(ReasonChanged, "%s was changed since it was installed; move it away, and put what you need into a drop-in or a file of its own", e.Path))
		default:
			errs = append(errs, refuse(ReasonForeign, "%s is there, and is not Slipway's; nothing is overwritten: remove it if nobody needs it", e.Path))
		}
		p.owned = append(p.owned, e)
	}
	for path, entries := range ours {
		if still[path] {
			continue
		}
		there, exists := found[path]
		if exists && !slices.ContainsFunc(entries, there.same) {
			p.kept = append(p.kept, path)
			continue
		}
		p.steps = append(p.steps, step{remove: true, Entry: entries[0]})
	}
	slices.SortFunc(p.steps, order)
	slices.Sort(p.kept)
	return p, errors.Join(errs...)
}

// order puts what is made before what is removed: a link is switched before what it led
// to goes.
func order(a, b step) int {
	switch {
	case a.remove && b.remove:
		return cmp.Or(cmp.Compare(ranks[b.Kind], ranks[a.Kind]), cmp.Compare(b.Path, a.Path))
	case a.remove:
		return 1
	case b.remove:
		return -1
	}
	return cmp.Or(cmp.Compare(ranks[a.Kind], ranks[b.Kind]), cmp.Compare(a.Path, b.Path))
}

// size of the components that the plan makes, in bytes.
func (p plan) size() int64 {
	var size int64
	for _, s := range p.steps {
		if !s.remove {
			size += s.component.Size()
		}
	}
	return size
}

// before is what the record must say while the steps are done: what was, and what will be.
func (p plan) before(recorded []Entry) []Entry {
	all := slices.Clone(recorded)
	for _, e := range p.owned {
		if !slices.ContainsFunc(all, e.same) {
			all = append(all, e)
		}
	}
	return all
}
