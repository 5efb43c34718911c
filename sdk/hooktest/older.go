package hooktest

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Older adds to catalog a deprecated version of a hook that it has, with the same types and
// with conversions that copy, and returns it: for tests of callers and handlers whose versions
// differ.
func Older[Q, R any, PQ hook.Request[Q], PR hook.Response[R]](t testing.TB, catalog *hook.Catalog, newer hook.Hook[Q, R], version string) hook.Hook[Q, R] {
	t.Helper()
	d := newer.Definition()
	meta := d.Meta
	meta.Lifecycle.Deprecated, meta.Lifecycle.Replacement = meta.Lifecycle.Introduced, d.Name.Version
	group := d.RequestKind.GroupVersion()
	group.Version = version
	older := hook.Define[Q, R, PQ, PR](group, d.Name.Hook, meta)
	err := catalog.Add(older)
	if err == nil {
		err = hook.AddConversion(catalog, newer, older, copyOf[Q, PQ], copyOf[R, PR])
	}
	if err != nil {
		t.Fatal(err)
	}
	return older
}

func copyOf[T any, P interface {
	*T
	runtime.Object
}](in, out *T) error {
	*out = *P(in).DeepCopyObject().(P)
	return nil
}
