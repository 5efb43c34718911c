package hook

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"
)

// Catalog holds hooks in several versions and the conversions between them.
// It is safe for concurrent use.
type Catalog struct {
	mu       sync.RWMutex
	hooks    map[GroupVersionHook]*Definition
	versions map[GroupHook][]*Definition
	paths    map[string]GroupVersionHook
	steps    map[GroupHook][]step
}

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog {
	return &Catalog{
		hooks:    map[GroupVersionHook]*Definition{},
		versions: map[GroupHook][]*Definition{},
		paths:    map[string]GroupVersionHook{},
		steps:    map[GroupHook][]step{},
	}
}

var hookName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// Add registers hooks. All or none of them are added. Hooks are keyed by name,
// so two hooks may share their request and response types. Adding the same
// definition twice is no error; another one under the same name or path is, and so
// are JSON tags in the request or response that encoding/json ignores.
func (c *Catalog) Add(hooks ...Any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := map[GroupVersionHook]*Definition{}
	taken := maps.Clone(c.paths)
	for _, h := range hooks {
		d := h.Definition()
		if err := d.validate(); err != nil {
			return err
		}
		if known, ok := c.hooks[d.Name]; ok && known == d {
			continue
		}
		path := Path(d.Name, "")
		if other, ok := taken[path]; ok {
			return fmt.Errorf("hook %s: its path %s is taken by hook %s", d.Name, path, other)
		}
		taken[path] = d.Name
		fresh[d.Name] = d
	}
	c.paths = taken
	for name, d := range fresh {
		c.hooks[name] = d
		list := append(slices.Clone(c.versions[name.GroupHook()]), d)
		slices.SortFunc(list, func(a, b *Definition) int {
			return version.CompareKubeAwareVersionStrings(b.Name.Version, a.Name.Version)
		})
		c.versions[name.GroupHook()] = list
	}
	return nil
}

func (d *Definition) validate() error {
	if d == nil {
		return fmt.Errorf("hook: the zero Hook names no hook; make one with hook.Define")
	}
	if errs := validation.IsDNS1123Subdomain(d.Name.Group); len(errs) > 0 {
		return fmt.Errorf("hook %s: invalid group: %s", d.Name, strings.Join(errs, ", "))
	}
	if _, ok := parseTrack(d.Name.Version); !ok {
		return fmt.Errorf("hook %s: invalid version: want v1, v1beta1, v1alpha1 or alike", d.Name)
	}
	if !hookName.MatchString(d.Name.Hook) {
		return fmt.Errorf("hook %s: invalid name: want an upper camel case identifier", d.Name)
	}
	if d.request == nil {
		return nil // of an OpenAPI document, without types
	}
	seen := map[reflect.Type]bool{}
	for _, t := range []reflect.Type{d.request, d.response} {
		if err := checkTags(t, seen); err != nil {
			return fmt.Errorf("hook %s: %w", d.Name, err)
		}
	}
	return nil
}

// Get returns the definition of one version of a hook, nil when it is not in
// the catalog.
func (c *Catalog) Get(name GroupVersionHook) *Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.hooks[name]
}

// Versions returns all versions of a hook, the newest first: by stability, then
// by number, as Kubernetes orders versions.
func (c *Catalog) Versions(name GroupHook) []*Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.versions[name])
}

// All returns all definitions ordered by group, hook and version, the newest
// version first.
func (c *Catalog) All() []*Definition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := slices.SortedFunc(maps.Keys(c.versions), func(a, b GroupHook) int {
		return strings.Compare(a.Group+"/"+a.Hook, b.Group+"/"+b.Hook)
	})
	var all []*Definition
	for _, name := range names {
		all = append(all, c.versions[name]...)
	}
	return all
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkTags refuses JSON tags of t, and of what is in it, with a meaning that
// encoding/json does not know. Upstream's side and the OpenAPI document would read
// another body than this one. Types that read themselves may have any.
func checkTags(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return checkTags(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	for field := range t.Fields() {
		if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		if err := checkTag(field); err != nil {
			return fmt.Errorf("field %s of %s: JSON tag %q: %w", field.Name, t, field.Tag.Get("json"), err)
		}
		if err := checkTags(field.Type, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkTag(field reflect.StructField) error {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if strings.ContainsAny(name, `"'\`+"`") {
		return fmt.Errorf("encoding/json ignores a name with quotes or backslashes")
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "", "omitempty", "omitzero", "string":
		case "inline":
			// Usual on embedded structs, which are inline anyway.
			if !field.Anonymous {
				return fmt.Errorf("encoding/json ignores inline; embed the struct")
			}
		default:
			name, _, _ := strings.Cut(option, ":")
			return fmt.Errorf("encoding/json ignores the option %s", name)
		}
	}
	return nil
}
