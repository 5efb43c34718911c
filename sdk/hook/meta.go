package hook

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
)

// Meta documents one version of a hook.
type Meta struct {
	// Summary is one line: when the hook is called.
	Summary string
	// Description says what a handler may rely on.
	Description string
	// Tags group hooks in the OpenAPI document.
	Tags []string
	// NonBlocking declares that a wish to be called again does not hold back the
	// caller, although the response type could carry it: the client takes it out of
	// the response, and extension.RetryAfter is a failure of the handler.
	NonBlocking bool
	// Object returns what a request is about, for logs. It gets requests of this
	// hook only. Default: requests are about nothing in particular.
	Object func(request runtime.Object) ObjectReference
	// Singleton hooks are served once per extension, without a handler name.
	Singleton bool
	// Lifecycle states since when and until when this version is supported.
	Lifecycle Lifecycle
}

// Lifecycle states the releases that changed the support of a hook version.
type Lifecycle struct {
	// Introduced is the first release that serves the version.
	Introduced Release
	// Deprecated is the release that announced the end of the version, zero
	// while none has.
	Deprecated Release
	// Removed is the release that no longer serves the version, zero while
	// none is planned.
	Removed Release
	// Replacement is the version to move to, for example "v1beta1". It is
	// required with Deprecated unless the hook goes away altogether: then every
	// version of it is deprecated.
	Replacement string
}

// Advice says what the author of a handler does about the deprecation: that there
// is a replacement to move to, or none.
func (l Lifecycle) Advice() string {
	if l.Replacement == "" {
		return "the hook goes away without a replacement"
	}
	return "move it to " + l.Replacement
}

// Release is one release of the product that calls the hooks.
type Release struct {
	// Version is the release's semantic version, for example "v1.14.0".
	Version string
	// Date is the day of the release. It is needed only to prove the length of
	// a deprecation.
	Date time.Time
}

// IsZero tells whether no release is named.
func (r Release) IsZero() bool { return r.Version == "" }

// Deprecated tells whether a deprecation has been announced.
func (m Meta) Deprecated() bool { return !m.Lifecycle.Deprecated.IsZero() }

// reached tells whether a release has come to a milestone. An unknown or malformed release has not.
func reached(milestone Release, release string) bool {
	if milestone.IsZero() {
		return false
	}
	m, err := version.ParseGeneric(milestone.Version)
	if err != nil {
		return false
	}
	r, err := version.ParseGeneric(release)
	return err == nil && r.AtLeast(m)
}
