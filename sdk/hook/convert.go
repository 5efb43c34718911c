package hook

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// step converts between two versions of a hook: requests down, responses up.
type step struct {
	newer, older *Definition
	down         func(in, out runtime.Object) error
	up           func(in, out runtime.Object) error
}

// AddConversion registers how requests of newer become requests of older and how
// responses of older become responses of newer (rule #2 of the Runtime SDK).
// Conversions chain: v3 to v2 and v2 to v1 make v3 to v1. Both functions get an
// empty out object and must not keep references to in. Both hooks must be in c.
func AddConversion[NQ, NR, OQ, OR any](c *Catalog, newer Hook[NQ, NR], older Hook[OQ, OR],
	down func(in *NQ, out *OQ) error, up func(in *OR, out *NR) error,
) error {
	n, o := newer.Definition(), older.Definition()
	if n == nil || o == nil || c.Get(n.Name) != n || c.Get(o.Name) != o {
		return fmt.Errorf("conversion: both hooks must be in the catalog before their conversion")
	}
	if n.Name.GroupHook() != o.Name.GroupHook() {
		return fmt.Errorf("conversion from %s to %s: different hooks are not convertible", n.Name, o.Name)
	}
	if version.CompareKubeAwareVersionStrings(n.Name.Version, o.Name.Version) <= 0 {
		return fmt.Errorf("conversion from %s to %s: the first version must be the newer one", n.Name, o.Name)
	}
	if down == nil || up == nil {
		return fmt.Errorf("conversion from %s to %s: both directions are required", n.Name, o.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[n.Name.GroupHook()] = append(c.steps[n.Name.GroupHook()], step{
		newer: n, older: o,
		down: func(in, out runtime.Object) error { return down(any(in).(*NQ), any(out).(*OQ)) },
		up:   func(in, out runtime.Object) error { return up(any(in).(*OR), any(out).(*NR)) },
	})
	return nil
}

// Conversion carries requests of Newer to Older and responses back.
type Conversion struct {
	newer, older *Definition
	steps        []step
}

// Conversion returns the shortest chain from newer to older. With the same
// version twice it converts nothing. It fails when either version is unknown
// or no chain leads from one to the other.
func (c *Catalog) Conversion(newer, older GroupVersionHook) (*Conversion, error) {
	n, o := c.Get(newer), c.Get(older)
	if n == nil || o == nil {
		return nil, &ConversionError{From: newer, To: older, Err: fmt.Errorf("the catalog lacks one of the versions")}
	}
	if n == o {
		return n.identity, nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	available := c.steps[newer.GroupHook()]
	chains := [][]step{nil}
	seen := map[*Definition]bool{n: true}
	for len(chains) > 0 {
		chain := chains[0]
		chains = chains[1:]
		at := n
		if len(chain) > 0 {
			at = chain[len(chain)-1].older
		}
		for _, s := range available {
			if s.newer != at || seen[s.older] {
				continue
			}
			next := append(slices.Clone(chain), s)
			if s.older == o {
				return &Conversion{newer: n, older: o, steps: next}, nil
			}
			seen[s.older] = true
			chains = append(chains, next)
		}
	}
	return nil, &ConversionError{From: newer, To: older, Err: fmt.Errorf("no conversion is registered")}
}

// Newer and Older return the versions at both ends.
func (c *Conversion) Newer() *Definition { return c.newer }

// Older returns the version at the lower end.
func (c *Conversion) Older() *Definition { return c.older }

// DownRequest converts a request of the newer version to the older one. The
// request is returned unchanged when both are the same.
func (c *Conversion) DownRequest(request runtime.Object) (runtime.Object, error) {
	for _, s := range c.steps {
		out := s.older.NewRequest()
		if err := guard(func() error { return s.down(request, out) }); err != nil {
			return nil, &ConversionError{From: s.newer.Name, To: s.older.Name, Err: err}
		}
		s.older.MarkRequest(out)
		request = out
	}
	return request, nil
}

// UpResponse converts a response of the older version to the newer one. The
// response is returned unchanged when both are the same.
func (c *Conversion) UpResponse(response hooksv1.ResponseObject) (hooksv1.ResponseObject, error) {
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		out := s.newer.NewResponse()
		if err := guard(func() error { return s.up(response, out) }); err != nil {
			return nil, &ConversionError{From: s.older.Name, To: s.newer.Name, Err: err}
		}
		s.newer.MarkResponse(out)
		response = out
	}
	return response, nil
}

// guard turns a panic of a conversion into an error: its input comes from
// another process, and one bad object must not end the caller's.
func guard(convert func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the conversion panicked: %v", p)
		}
	}()
	return convert()
}

// ConversionError tells that a request or response could not be converted. It is
// a defect of the catalog or of the object, never of the network.
type ConversionError struct {
	// From and To are the versions in the direction of the conversion.
	From, To GroupVersionHook
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *ConversionError) Error() string {
	return fmt.Sprintf("convert %s to %s: %v", e.From, e.To.Version, e.Err)
}

// Unwrap returns the cause.
func (e *ConversionError) Unwrap() error { return e.Err }
