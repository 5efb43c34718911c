package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/chaos/judge"
)

var nodes = Resource{Version: "v1", Resource: "nodes"}

func node(name, revision string) unstructured.Unstructured {
	n := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node"}}
	n.SetName(name)
	n.SetResourceVersion(revision)
	return n
}

// server answers lists and watches as told.
type server struct {
	lists   chan unstructured.UnstructuredList
	watches chan *watch.FakeWatcher
	refused chan error
}

func (s *server) connect(context.Context) (dynamic.Interface, error) {
	select {
	case err := <-s.refused:
		return nil, err
	default:
	}
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[Resource]string{nodes: "NodeList"})
	c.PrependReactor("list", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		list := <-s.lists
		return true, &list, nil
	})
	c.PrependWatchReactor("nodes", func(kubetesting.Action) (bool, watch.Interface, error) {
		w, ok := <-s.watches
		if !ok {
			return true, nil, errors.New("refused")
		}
		return true, w, nil
	})
	return c, nil
}

func list(revision string, items ...unstructured.Unstructured) unstructured.UnstructuredList {
	l := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "NodeList"}, Items: items}
	l.SetResourceVersion(revision)
	return l
}

// A watch that goes on misses nothing; one that begins anew says what it did not see, and
// when that was at the earliest.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := &server{lists: make(chan unstructured.UnstructuredList, 1), watches: make(chan *watch.FakeWatcher, 1), refused: make(chan error, 1)}
	s.refused <- errors.New("not yet")
	var log Log
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		Follow(ctx, &log, "local", nodes, s.connect)
		close(ended)
	}()

	s.lists <- list("10", node("a", "3"), node("b", "7"))
	first := watch.NewFake()
	s.watches <- first
	changed := node("a", "11")
	first.Modify(&changed)
	// It ends, and goes on from there.
	second := watch.NewFake()
	first.Stop()
	s.watches <- second
	created := node("c", "12")
	second.Add(&created)
	// The server has forgotten: b is gone, a has changed, c is as it was.
	s.lists <- list("20", node("a", "18"), node("c", "12"))
	third := watch.NewFake()
	second.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	s.watches <- third
	deleted := node("c", "21")
	third.Delete(&deleted)

	want := []string{
		"Lost  0 false", "Found  0 false", "Written a 3 false", "Written b 7 false", "Written a 11 false", "Written c 12 false",
		"Written a 18 true", "Deleted b 12 true", "Deleted c 21 false",
	}
	poll.Until(t, "the history", func() error {
		var got []string
		for _, e := range log.Entries() {
			got = append(got, fmt.Sprintf("%s %s %d %t", e.Verb, e.Name(), e.Revision, e.Unseen))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
	for _, e := range log.Entries() {
		if e.Cluster != "local" || e.Seen.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if got := log.Since(8); len(got) != 1 || got[0].Verb != judge.Deleted {
		t.Errorf("the last entry is %+v", got)
	}
	cancel()
	third.Stop()
	close(s.watches)
	<-ended
}

func TestFollowEndsWithItsCluster(t *testing.T) {
	t.Parallel()
	var log Log
	Follow(t.Context(), &log, "second", nodes, func(context.Context) (dynamic.Interface, error) { return nil, fmt.Errorf("look: %w", ErrGone) })
	if entries := log.Entries(); len(entries) > 0 {
		t.Errorf("seen of a cluster that is gone: %+v", entries)
	}
}
