package hook

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// track is the stability of a version; a higher value is more stable.
type track int

const (
	alpha track = iota
	beta
	stable
)

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*(alpha[1-9][0-9]*|beta[1-9][0-9]*)?$`)

func parseTrack(v string) (track, bool) {
	m := versionPattern.FindStringSubmatch(v)
	switch {
	case m == nil:
		return alpha, false
	case m[1] == "":
		return stable, true
	case m[1][0] == 'b':
		return beta, true
	default:
		return alpha, true
	}
}

// support is what rule #4 demands between deprecation and removal.
var support = map[track]struct{ months, releases int }{
	stable: {months: 12, releases: 3},
	beta:   {months: 6, releases: 2},
	alpha:  {},
}

// CheckRules reports every violation of the Runtime SDK's rules #2 to #4 by the
// catalog, joined, nil when there is none. Rule #1, that a published version
// never loses anything, needs the published version: see openapi.Diff.
func (c *Catalog) CheckRules() error {
	var errs []error
	for _, d := range c.All() {
		newest := c.Versions(d.Name.GroupHook())[0]
		if newest != d {
			if _, err := c.Conversion(newest.Name, d.Name); err != nil {
				errs = append(errs, fmt.Errorf("rule #2: %w", err))
			}
		}
		errs = append(errs, c.checkDeprecation(d), checkSupport(d, newest == d && !c.goesAway(d.Name.GroupHook())))
	}
	return errors.Join(errs...)
}

// goesAway tells whether a hook ends altogether: each of its versions is deprecated.
func (c *Catalog) goesAway(name GroupHook) bool {
	return !slices.ContainsFunc(c.Versions(name), func(d *Definition) bool { return !d.Meta.Deprecated() })
}

// checkDeprecation proves rule #3: what replaces a deprecated version exists and
// is at least as stable. A hook that goes away altogether needs no replacement.
func (c *Catalog) checkDeprecation(d *Definition) error {
	life := d.Meta.Lifecycle
	if life.Deprecated.IsZero() {
		return nil
	}
	if life.Replacement == "" {
		if c.goesAway(d.Name.GroupHook()) {
			return nil
		}
		return fmt.Errorf("rule #3: hook %s is deprecated without a replacement, while another version of it is not", d.Name)
	}
	name := d.Name
	name.Version = life.Replacement
	if c.Get(name) == nil {
		return fmt.Errorf("rule #3: hook %s is replaced by %s, which the catalog lacks", d.Name, life.Replacement)
	}
	was, _ := parseTrack(d.Name.Version)
	is, _ := parseTrack(life.Replacement)
	if is < was {
		return fmt.Errorf("rule #3: hook %s is replaced by the less stable %s", d.Name, life.Replacement)
	}
	return nil
}

// checkSupport proves rule #4: a version is supported long enough after its
// deprecation.
func checkSupport(d *Definition, newest bool) error {
	life := d.Meta.Lifecycle
	if life.Removed.IsZero() {
		return nil
	}
	if newest {
		return fmt.Errorf("rule #4: hook %s is the newest version and cannot be removed while a version of it is not deprecated", d.Name)
	}
	if life.Deprecated.IsZero() {
		return fmt.Errorf("rule #4: hook %s is removed in %s without a deprecation", d.Name, life.Removed.Version)
	}
	stability, _ := parseTrack(d.Name.Version)
	want := support[stability]
	if earliest := life.Deprecated.Date.AddDate(0, want.months, 0); life.Removed.Date.Before(earliest) {
		return fmt.Errorf("rule #4: hook %s is removed on %s, before %s", d.Name,
			life.Removed.Date.Format("2006-01-02"), earliest.Format("2006-01-02"))
	}
	from, err := version.ParseGeneric(life.Deprecated.Version)
	if err != nil {
		return fmt.Errorf("rule #4: hook %s: release %q: %w", d.Name, life.Deprecated.Version, err)
	}
	to, err := version.ParseGeneric(life.Removed.Version)
	if err != nil {
		return fmt.Errorf("rule #4: hook %s: release %q: %w", d.Name, life.Removed.Version, err)
	}
	// A new major release counts as enough releases: the minors before it are unknown here.
	if to.Major() == from.Major() && int(to.Minor())-int(from.Minor()) < want.releases {
		return fmt.Errorf("rule #4: hook %s is removed %d releases after its deprecation, want %d",
			d.Name, int(to.Minor())-int(from.Minor()), want.releases)
	}
	return nil
}
