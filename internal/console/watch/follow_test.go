package watch

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// names is a Follower that keeps names.
type names []string

func (n *names) Set(o client.Object) {
	n.Delete(o)
	*n = append(*n, o.GetName())
}
func (n *names) Delete(o client.Object) {
	*n = slices.DeleteFunc(*n, func(name string) bool { return name == o.GetName() })
}
func (n *names) Clear() { *n = nil }

// A follower knows what is there, before who waits for a change is woken, and nothing of a
// kind that is refused, even if its watch has more to tell.
func TestAFollowerKnowsWhatIsThere(t *testing.T) {
	r, known := silent(t), &names{}
	r.Follow(&corev1.Event{}, known)
	k := r.kind(&corev1.Event{})
	k.watching, k.feed = true, &feed{follower: k.follower, changed: r.changed}
	event := func(name string) *corev1.Event { return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for _, c := range []struct {
		tell func()
		want []string
	}{
		{func() { k.feed.OnAdd(event("a"), true) }, []string{"a"}},
		{func() { k.feed.OnAdd(event("b"), false) }, []string{"a", "b"}},
		{func() { k.feed.OnUpdate(event("a"), event("a")) }, []string{"b", "a"}},
		{func() { k.feed.OnDelete(event("b")) }, []string{"a"}},
		{func() { k.feed.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a", Obj: event("a")}) }, nil},
		{func() { k.feed.OnAdd(event("c"), false) }, []string{"c"}},
		{func() { r.refuse(t.Context(), event(""), apierrors.NewForbidden(corev1.Resource("events"), "", nil)) }, nil},
		{func() { k.feed.OnAdd(event("d"), false) }, nil},
	} {
		changed := r.Changed()
		c.tell()
		select {
		case <-changed:
		default:
			t.Error("nobody is woken")
		}
		if !slices.Equal(*known, c.want) {
			t.Fatalf("it knows %q, want %q", *known, c.want)
		}
	}
	if err := (&Lenient{Reader: r}).Watch(t.Context(), event("")); err != nil {
		t.Errorf("a refusal is an error of the page: %v", err)
	}
}
