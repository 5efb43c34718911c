package chaos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/test/chaos/judge"
)

// retry is the pause before a cluster that does not answer is asked again.
const retry = 500 * time.Millisecond

// ErrGone ends a watch: the cluster will not come back.
var ErrGone = errors.New("the cluster is gone")

// Connect opens a client. It is asked again whenever a cluster was lost: its address may
// have changed.
type Connect func(context.Context) (dynamic.Interface, error)

// Resource is what is watched, in all namespaces.
type Resource = schema.GroupVersionResource

// stream is the watch of one resource of one cluster.
type stream struct {
	log      *Log
	cluster  string
	resource Resource
	connect  Connect

	client dynamic.Interface
	// revision from which to watch on; empty to list.
	revision string
	known    map[string]*unstructured.Unstructured
	lost     bool
	// lostAt is the newest revision of the cluster when it was lost; 0 once what happened
	// since is known.
	lostAt uint64
}

// Follow watches a resource of a cluster until the context ends or connect says ErrGone.
func Follow(ctx context.Context, log *Log, cluster string, resource Resource, connect Connect) {
	s := &stream{log: log, cluster: cluster, resource: resource, connect: connect, known: map[string]*unstructured.Unstructured{}}
	for ctx.Err() == nil {
		err := s.once(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrGone):
			return
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			s.revision = ""
		default:
			s.lose()
			time.Sleep(retry)
		}
	}
}

func (s *stream) lose() {
	if !s.lost {
		s.lost, s.lostAt = true, s.log.newestOf(s.cluster)
		s.log.Add(judge.Entry{Cluster: s.cluster, Verb: judge.Lost, Text: s.resource.Resource})
	}
	s.client = nil
}

// once watches until the watch ends. A watch that the server ended is no error.
func (s *stream) once(ctx context.Context) (err error) {
	if s.client == nil {
		if s.client, err = s.connect(ctx); err != nil {
			return err
		}
	}
	if s.revision == "" {
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	w, err := s.client.Resource(s.resource).Watch(ctx, metav1.ListOptions{ResourceVersion: s.revision, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer w.Stop()
	s.find()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("watch %s: unexpected %T", s.resource.Resource, event.Object)
		}
		s.revision, s.lostAt = object.GetResourceVersion(), 0
		switch event.Type {
		case watch.Added, watch.Modified:
			s.written(object, false)
		case watch.Deleted:
			s.deleted(object)
		case watch.Bookmark, watch.Error:
		}
	}
	return nil
}

// find notes that the cluster answers again.
func (s *stream) find() {
	if s.lost {
		s.lost = false
		s.log.Add(judge.Entry{Cluster: s.cluster, Verb: judge.Found, Text: s.resource.Resource})
	}
}

// list says what is there, and what is not any more.
func (s *stream) list(ctx context.Context) error {
	at := s.lostAt
	if at == 0 {
		at = s.log.newestOf(s.cluster)
	}
	list, err := s.client.Resource(s.resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	s.find()
	here := map[string]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		key := o.GetNamespace() + "/" + o.GetName()
		here[key] = true
		before := s.known[key]
		if before == nil || before.GetResourceVersion() != o.GetResourceVersion() {
			s.written(o, before != nil)
		}
	}
	for key, o := range s.known {
		if !here[key] {
			delete(s.known, key)
			s.log.Add(judge.Entry{Cluster: s.cluster, Verb: judge.Deleted, Revision: at, Unseen: true, Object: o})
		}
	}
	s.revision, s.lostAt = list.GetResourceVersion(), 0
	return nil
}

func (s *stream) written(o *unstructured.Unstructured, unseen bool) {
	o.SetManagedFields(nil)
	s.known[o.GetNamespace()+"/"+o.GetName()] = o
	s.log.Add(judge.Entry{Cluster: s.cluster, Verb: judge.Written, Revision: revision(o), Unseen: unseen, Object: o})
}

func (s *stream) deleted(o *unstructured.Unstructured) {
	o.SetManagedFields(nil)
	delete(s.known, o.GetNamespace()+"/"+o.GetName())
	s.log.Add(judge.Entry{Cluster: s.cluster, Verb: judge.Deleted, Revision: revision(o), Object: o})
}

// revision of an object, by which all writes of one API server are ordered.
func revision(o *unstructured.Unstructured) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}
