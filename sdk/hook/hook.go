package hook

import (
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// GroupVersionHook names one version of a hook. It is upstream's type, so that
// both SDKs name hooks and their paths alike.
type GroupVersionHook = runtimecatalog.GroupVersionHook

// GroupHook names a hook without its version.
type GroupHook = runtimecatalog.GroupHook

// Request constrains PQ to a pointer to Q that is a runtime.Object.
type Request[Q any] interface {
	*Q
	runtime.Object
}

// Response constrains PR to a pointer to R that carries status and message.
type Response[R any] interface {
	*R
	hooksv1.ResponseObject
}

// Hook is one version of a hook with its request type Q and response type R.
// The zero value names no hook and is refused by every function that takes one.
type Hook[Q, R any] struct {
	definition *Definition
}

// Any is a hook of any request and response type.
type Any interface {
	// Definition returns the untyped form of the hook, nil for the zero value.
	Definition() *Definition
}

// Definition is the untyped form of one version of a hook.
type Definition struct {
	// Name identifies the hook and its version.
	Name GroupVersionHook
	// Meta documents the hook and states its lifecycle.
	Meta Meta
	// RequestKind and ResponseKind are the kinds written to the wire:
	// <Hook>Request and <Hook>Response.
	RequestKind, ResponseKind schema.GroupVersionKind

	apiVersion string
	// request and response are the types Q and R of the Hook.
	request, response reflect.Type
	identity          *Conversion
}

// Definition implements Any, for hooks whose types are not known at compile time.
func (d *Definition) Definition() *Definition { return d }

// Define describes the version gv of the hook name. It fails nowhere: an invalid
// definition is reported by Catalog.Add, so that hooks can be package variables.
func Define[Q, R any, PQ Request[Q], PR Response[R]](gv schema.GroupVersion, name string, meta Meta) Hook[Q, R] {
	d := &Definition{
		Name:         GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: name},
		Meta:         meta,
		RequestKind:  gv.WithKind(name + "Request"),
		ResponseKind: gv.WithKind(name + "Response"),
		apiVersion:   gv.String(),
		request:      reflect.TypeFor[Q](),
		response:     reflect.TypeFor[R](),
	}
	d.identity = &Conversion{newer: d, older: d}
	return Hook[Q, R]{definition: d}
}

// Definition returns the untyped form of h, nil for the zero value.
func (h Hook[Q, R]) Definition() *Definition { return h.definition }

// NewRequest returns an empty request.
func (d *Definition) NewRequest() runtime.Object {
	return reflect.New(d.request).Interface().(runtime.Object)
}

// NewResponse returns an empty response.
func (d *Definition) NewResponse() hooksv1.ResponseObject {
	return reflect.New(d.response).Interface().(hooksv1.ResponseObject)
}

// MarkRequest writes apiVersion and kind of the hook's request into request.
func (d *Definition) MarkRequest(request runtime.Object) { d.mark(request, d.RequestKind) }

// MarkResponse writes apiVersion and kind of the hook's response into response.
func (d *Definition) MarkResponse(response runtime.Object) { d.mark(response, d.ResponseKind) }

func (d *Definition) mark(object runtime.Object, kind schema.GroupVersionKind) {
	if meta, ok := object.GetObjectKind().(*metav1.TypeMeta); ok {
		// Without putting the text of the version together for each call.
		meta.APIVersion, meta.Kind = d.apiVersion, kind.Kind
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
}

// CopyRequest returns a copy of request whose own fields can be set; what they
// refer to is shared. It returns false if request is nil or of another type.
func (d *Definition) CopyRequest(request runtime.Object) (runtime.Object, bool) {
	if !d.IsRequest(request) {
		return nil, false
	}
	copied := d.NewRequest()
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(request).Elem())
	return copied, true
}

// IsRequest tells whether request is a non-nil request of the hook.
func (d *Definition) IsRequest(request runtime.Object) bool { return isA(d.request, request) }

// IsResponse tells whether response is a non-nil response of the hook.
func (d *Definition) IsResponse(response hooksv1.ResponseObject) bool {
	return isA(d.response, response)
}

// isA tells whether object is a pointer to a value of type t.
func isA(t reflect.Type, object any) bool {
	v := reflect.ValueOf(object)
	return v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem() == t
}

// Blocking tells whether a response can ask to be called again later.
func (d *Definition) Blocking() bool {
	_, ok := d.NewResponse().(hooksv1.RetryResponseObject)
	return ok && !d.Meta.NonBlocking
}

// RequestIDHeader is the header by which a caller names a request, for logs. An
// extension should repeat it in its answer: the caller refuses an answer with the ID
// of another request.
const RequestIDHeader = "Runtime-Request-Id"

// Path returns the URL path of the handler below the prefix of its extension.
// A singleton hook has no handler name.
func Path(name GroupVersionHook, handler string) string {
	return runtimecatalog.GVHToPath(name, handler)
}

// APIVersion returns "<group>/<version>" of the hook.
func APIVersion(name GroupVersionHook) string { return name.Group + "/" + name.Version }

// QualifiedName returns the name under which a handler of an ExtensionConfig is
// registered: "<handler>.<extensionConfig>".
func QualifiedName(handler, extensionConfig string) string { return handler + "." + extensionConfig }

// HandlerName returns the handler's part of a qualified name.
func HandlerName(qualified string) string {
	handler, _, _ := strings.Cut(qualified, ".")
	return handler
}

// ConfigName returns the ExtensionConfig's part of a qualified name, which may have dots.
func ConfigName(qualified string) string {
	_, config, _ := strings.Cut(qualified, ".")
	return config
}

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

// ObjectReference names the object that a request is about.
type ObjectReference struct {
	// Kind is the object's kind, for example "Cluster".
	Kind string
	// Namespace and Name are the object's. Namespace is empty if the request does
	// not tell it.
	Namespace, Name string
}

// IsZero tells whether no object is named.
func (o ObjectReference) IsZero() bool { return o == ObjectReference{} }

// ObjectOf returns what request is about by Meta.Object, zero if it is about nothing
// or is no request of the hook.
func (d *Definition) ObjectOf(request runtime.Object) ObjectReference {
	if d.Meta.Object == nil || !d.IsRequest(request) {
		return ObjectReference{}
	}
	return d.Meta.Object(request)
}
