package capi

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// workloadChanged fires when a Node of a workload cluster, or a static Pod of
// its control plane, changed in a way that a KubeadmControlPlane reports.
// Upstream looks every 15 to 20 s: the end of `kubeadm init`, which sets the
// role label of the Node, and the health of the Pods, which gates scaling.
// The informers are those that the provider's ClusterCache has anyway.
func (e *env) workloadChanged() (wakeSource, error) {
	w := &workloadWatcher{clusters: e.clusters, client: e.GetClient(), events: make(chan event.GenericEvent)}
	c, err := controller.New("workload-watcher", e, controller.Options{Reconciler: w, SkipNameValidation: ptr.To(true)})
	if err != nil {
		return nil, fmt.Errorf("workload watcher: %w", err)
	}
	w.controller = c
	// Fires on connecting, which is when the watches can be added.
	if err := c.Watch(e.clusters.GetClusterSource("workload-watcher", toSelf)); err != nil {
		return nil, fmt.Errorf("workload watcher: %w", err)
	}
	return func(to toRequests) source.Source {
		return source.Channel(w.events, handler.EnqueueRequestsFromMapFunc(to))
	}, nil
}

// workloadWatcher reconciles Clusters: it adds the watches to a cluster that was
// connected, and passes every event of theirs on.
type workloadWatcher struct {
	clusters   clustercache.ClusterCache
	client     client.Client
	controller controller.Controller
	events     chan event.GenericEvent
}

// Reconcile implements reconcile.Reconciler.
func (w *workloadWatcher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := w.watch(ctx, req); err != nil {
		if errors.Is(err, clustercache.ErrClusterNotConnected) {
			// The ClusterCache sends an event when it is.
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	select {
	case w.events <- event.GenericEvent{Object: cluster}:
	case <-ctx.Done():
	}
	return ctrl.Result{}, nil
}

func (w *workloadWatcher) watch(ctx context.Context, req ctrl.Request) error {
	toCluster := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
		return []ctrl.Request{req}
	})
	for _, o := range []clustercache.WatcherOptions{
		{Name: "workload-watcher-nodes", Kind: &corev1.Node{}, Predicates: []predicate.Predicate{changed(nodeState)}},
		{Name: "workload-watcher-pods", Kind: &corev1.Pod{}, Predicates: []predicate.Predicate{changed(podState)}},
	} {
		o.Watcher, o.EventHandler = w.controller, toCluster
		if err := w.clusters.Watch(ctx, req.NamespacedName, clustercache.NewWatcher(o)); err != nil {
			return err
		}
	}
	return nil
}

func toSelf(_ context.Context, o client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// changed passes creations, deletions, and updates that change state.
func changed(state func(client.Object) map[string]string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(state(e.ObjectOld), state(e.ObjectNew))
	}}
}

// nodeState is what a control plane's status and preflight checks depend on.
func nodeState(o client.Object) map[string]string {
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	state := maps.Clone(node.Labels)
	if state == nil {
		state = map[string]string{}
	}
	state["providerID"] = node.Spec.ProviderID
	for _, t := range node.Spec.Taints {
		state["taint "+t.Key] = string(t.Effect)
	}
	for _, c := range node.Status.Conditions {
		state["condition "+string(c.Type)] = string(c.Status)
	}
	return state
}

func podState(o client.Object) map[string]string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	state := map[string]string{"phase": string(pod.Status.Phase)}
	for _, c := range pod.Status.Conditions {
		state["condition "+string(c.Type)] = string(c.Status)
	}
	return state
}
