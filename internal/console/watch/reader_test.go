package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silent is a Reader of an API server that does not answer.
func silent(t *testing.T) *Reader {
	t.Helper()
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	live, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Start(t.Context(), config, live, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The first page may be asked for at once.
func TestAReaderHasStarted(t *testing.T) {
	for range 20 {
		r := silent(t)
		if _, err := r.cache.GetInformer(t.Context(), &corev1.Event{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := r.cache.List(ctx, &corev1.EventList{})
		cancel()
		if early := (&cache.ErrCacheNotStarted{}); err == nil || errors.As(err, &early) {
			t.Fatalf("a read of what nobody answers: %v", err)
		}
	}
}

func TestAReaderThatIsToEndDoesNotStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := silent(t)
	if _, err := Start(ctx, &rest.Config{Host: "http://127.0.0.1:1"}, r.live, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Events are of two groups whose types are called alike.
func TestAWatchThatFailsIsOfTheKindThatWasAskedFor(t *testing.T) {
	r := silent(t)
	if object := r.objectOf("*v1.Event"); object != nil {
		t.Errorf("before anybody asked it is of %T", object)
	}
	asked := &corev1.Event{Reason: "Filled"}
	for range 50 {
		r.kinds = map[string]*kind{}
		r.kind(asked)
		got, ok := r.objectOf("*v1.Event").(*corev1.Event)
		if !ok || got == asked || got.Reason != "" {
			t.Fatalf("it is of %T: %v", r.objectOf("*v1.Event"), got)
		}
	}
}

// A watch is refused between the look whether there is one and the read.
func TestAWatchRefusedMeanwhileIsTold(t *testing.T) {
	r := silent(t)
	event := &corev1.Event{}
	r.kind(event).watching = true
	forbidden := apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("cannot watch resource"))
	err := r.read(t.Context(), event, func() error {
		r.refuse(t.Context(), event, forbidden)
		return r.cache.List(t.Context(), &corev1.EventList{})
	})
	if !errors.Is(err, forbidden) {
		t.Errorf("the read says: %v; want the refusal", err)
	}
}

// A page that is rendered again has its rows in the same order.
func TestListsAreInOrder(t *testing.T) {
	list := &corev1.EventList{}
	for _, name := range []string{"b/a", "a/c", "a/b"} {
		event := corev1.Event{}
		event.Namespace, event.Name, _ = strings.Cut(name, "/")
		list.Items = append(list.Items, event)
	}
	if err := inOrder(list); err != nil {
		t.Fatal(err)
	}
	var order []string
	for i := range list.Items {
		order = append(order, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	if want := []string{"a/b", "a/c", "b/a"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}
