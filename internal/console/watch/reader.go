package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// askAgain is after what time a kind that was refused is asked for anew: rights are
	// given, and CustomResourceDefinitions installed, while somebody looks.
	askAgain = 20 * time.Second
	// syncTimeout bounds the wait for the first list of a kind.
	syncTimeout = 20 * time.Second
	// knockInterval is how often an API server that does not answer is asked again.
	knockInterval = 2 * time.Second
)

// Reader is a client.Reader of all kinds that its user may list and watch.
type Reader struct {
	live      client.Client
	cache     cache.Cache
	namespace string
	changed   *signal

	mu     sync.Mutex
	kinds  map[string]*kind
	silent time.Time
}

var _ client.Reader = &Reader{}

// kind is what is known of one kind.
type kind struct {
	// object is an empty one; it does not change.
	object client.Object

	mu       sync.Mutex
	follower Follower
	watching bool
	feed     *feed
	refused  error
	asked    time.Time
}

// Start returns a Reader whose watches end with ctx. It reads the one namespace, or all
// when that is empty, and asks with live what may be read at all.
func Start(ctx context.Context, config *rest.Config, live client.Client, namespace string) (*Reader, error) {
	r := &Reader{live: live, namespace: namespace, changed: newSignal(), kinds: map[string]*kind{}}
	options := cache.Options{
		Scheme: live.Scheme(), Mapper: live.RESTMapper(),
		ReaderFailOnMissingInformer:  true,
		DefaultUnsafeDisableDeepCopy: ptr.To(true),
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultWatchErrorHandler: func(_ context.Context, reflector *toolscache.Reflector, err error) {
			r.watchFailed(ctx, reflector.TypeDescription(), err)
		},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	var err error
	if r.cache, err = cache.New(config, options); err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	go func() { _ = r.cache.Start(ctx) }()
	// Before it has started, it refuses to read.
	if !r.cache.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("start the cache: %w", context.Cause(ctx))
	}
	return r, nil
}

// Changed returns a channel that is closed at the next change of anything that was read.
func (r *Reader) Changed() <-chan struct{} { return r.changed.wait() }

// Touch is a change of something else that pages show.
func (r *Reader) Touch() { r.changed.fire() }

// Silent is since when the API server does not answer; zero while it does. What is read
// meanwhile is what was known then.
func (r *Reader) Silent() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent
}

// Get implements client.Reader.
func (r *Reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return r.read(ctx, object, func() error { return r.cache.Get(ctx, key, object, opts...) })
}

// List implements client.Reader, in the order of namespaces and names.
func (r *Reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	object, err := r.itemOf(list)
	if err != nil {
		return err
	}
	if err := r.read(ctx, object, func() error { return r.cache.List(ctx, list, opts...) }); err != nil {
		return err
	}
	return inOrder(list)
}

// inOrder sorts a list by namespace and name, as an API server lists: a cache lists in another
// order each time, and a page that is rendered again would move under its reader.
func inOrder(list client.ObjectList) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	slices.SortFunc(items, func(a, b runtime.Object) int {
		one, other := a.(client.Object), b.(client.Object)
		return cmp.Or(cmp.Compare(one.GetNamespace(), other.GetNamespace()), cmp.Compare(one.GetName(), other.GetName()))
	})
	return meta.SetList(list, items)
}

// read reads with from once the kind of an object is watched. A watch that is refused
// between the two has the kind forgotten, which is told as the refusal.
func (r *Reader) read(ctx context.Context, object client.Object, from func() error) error {
	if err := r.ensure(ctx, object); err != nil {
		return err
	}
	err := from()
	if forgotten := (*cache.ErrResourceNotCached)(nil); !errors.As(err, &forgotten) {
		return err
	}
	if err := r.ensure(ctx, object); err != nil {
		return err
	}
	return from()
}

// itemOf is an object of the kind that a list is of.
func (r *Reader) itemOf(list client.ObjectList) (client.Object, error) {
	gvk, err := r.live.GroupVersionKindFor(list)
	if err != nil {
		return nil, err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	object, err := r.live.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return object.(client.Object), nil
}

// listOf is an empty list of the kind of an object.
func (r *Reader) listOf(object client.Object) (client.ObjectList, error) {
	gvk, err := r.live.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	gvk.Kind += "List"
	list, err := r.live.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

// typeName is how a reflector calls the kind of an object.
func typeName(object runtime.Object) string { return reflect.TypeOf(object).String() }

func (r *Reader) kind(object client.Object) *kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := typeName(object)
	if r.kinds[name] == nil {
		r.kinds[name] = &kind{object: reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)}
	}
	return r.kinds[name]
}

// ensure has the kind of an object watched, or says why it can't be.
func (r *Reader) ensure(ctx context.Context, object client.Object) error {
	k := r.kind(object)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.watching:
		return nil
	case k.refused != nil && time.Since(k.asked) < askAgain:
		return k.refused
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := r.ask(ctx, object); err != nil {
		k.refused, k.asked = nil, time.Now()
		if refusal(err) {
			k.refused = err
		}
		return err
	}
	informer, err := r.cache.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watch %T: %w", object, err)
	}
	f := &feed{follower: k.follower, changed: r.changed}
	told, err := informer.AddEventHandler(f)
	if err != nil {
		return fmt.Errorf("watch %T: %w", object, err)
	}
	if k.follower != nil {
		select {
		case <-told.HasSyncedChecker().Done():
		case <-ctx.Done():
			f.end()
			_ = informer.RemoveEventHandler(told)
			return fmt.Errorf("watch %T: %w", object, context.Cause(ctx))
		}
	}
	k.feed = f
	k.watching, k.refused = true, nil
	return nil
}

// ask has the API server say whether the kind of an object may be listed: a reflector
// would only try again and again.
func (r *Reader) ask(ctx context.Context, object client.Object) error {
	list, err := r.listOf(object)
	if err != nil {
		return err
	}
	return r.live.List(ctx, list, client.InNamespace(r.namespace), client.Limit(1))
}

func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || meta.IsNoMatchError(err)
}

// watchFailed learns that a watch ended, and why.
func (r *Reader) watchFailed(ctx context.Context, name string, err error) {
	object := r.objectOf(name)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		// it begins anew by itself
	case object == nil || ctx.Err() != nil:
	case refusal(err):
		go r.refuse(ctx, object, err)
	default:
		go r.knock(ctx, object)
	}
}

// objectOf is an object of the kind that a reflector calls so, and that somebody asked for:
// kinds of several groups are called alike, such as events.
func (r *Reader) objectOf(name string) client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.kinds[name]; k != nil {
		return k.object
	}
	return nil
}

// refuse forgets what was read of a kind that the user may not watch, or no longer.
func (r *Reader) refuse(ctx context.Context, object client.Object, err error) {
	k := r.kind(object)
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = r.cache.RemoveInformer(ctx, object)
	if k.feed != nil {
		k.feed.end()
	}
	k.watching, k.refused, k.asked = false, err, time.Now()
	r.changed.fire()
}

// knock tells that the API server does not answer, until it does.
func (r *Reader) knock(ctx context.Context, object client.Object) {
	if !r.silence(time.Now()) {
		return
	}
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, syncTimeout)
		err := r.ask(asking, object)
		cancel()
		if answer := apierrors.APIStatus(nil); err == nil || refusal(err) || errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(knockInterval):
		}
	}
	r.silence(time.Time{})
}

// silence records since when the API server does not answer. It says whether that was
// not known.
func (r *Reader) silence(since time.Time) bool {
	r.mu.Lock()
	news := r.silent.IsZero() != since.IsZero()
	if news {
		r.silent = since
	}
	r.mu.Unlock()
	if news {
		r.changed.fire()
	}
	return news
}
