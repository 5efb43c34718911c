package capi

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// fakeCache is a ClusterCache of which only the event source is used.
type fakeCache struct {
	clustercache.ClusterCache
	events chan event.GenericEvent
}

func (c *fakeCache) GetClusterSource(_ string, to toRequests, _ ...clustercache.GetClusterSourceOption) source.Source {
	return source.Channel(c.events, handler.EnqueueRequestsFromMapFunc(to))
}

func TestWakeCacheAddsToUpstreamsEvents(t *testing.T) {
	upstream := &fakeCache{events: make(chan event.GenericEvent)}
	more := make(chan event.GenericEvent)
	c := newWakeCache(upstream)
	c.on("kubeadmconfig", func(to toRequests) source.Source {
		return source.Channel(more, handler.EnqueueRequestsFromMapFunc(to))
	})
	for name, events := range map[string][]chan event.GenericEvent{
		"kubeadmconfig": {upstream.events, more},
		"machine":       {upstream.events},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer queue.ShutDown()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := c.GetClusterSource(name, toSelf).Start(ctx, queue); err != nil {
				t.Fatal(err)
			}
			for _, ch := range events {
				ch <- event.GenericEvent{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}}
				req, shutdown := queue.Get()
				if shutdown || req.Name != "c" {
					t.Errorf("got %v", req)
				}
				queue.Done(req)
			}
		})
	}
}

// TestUpstreamCanReconnectQuickly fails when a new Cluster API takes the method
// away. The plane would still work, but lose up to 30 s at every new cluster.
func TestUpstreamCanReconnectQuickly(t *testing.T) {
	mgr, err := ctrl.NewManager(offline, managerOptions(mustScheme(t), nil))
	if err != nil {
		t.Fatal(err)
	}
	c, err := clustercache.SetupWithManager(t.Context(), mgr, clustercache.Options{
		SecretClient: mgr.GetClient(), Client: clustercache.ClientOptions{UserAgent: "test"},
	}, controllerOptions(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.(interface{ SetConnectionCreationRetryInterval(time.Duration) }); !ok {
		t.Errorf("%T has no SetConnectionCreationRetryInterval any more: find another way, see docs/design/latency.md", c)
	}
}

func TestChanged(t *testing.T) {
	node := func(change func(*corev1.Node)) client.Object {
		n := &corev1.Node{}
		n.Labels = map[string]string{"a": "b"}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		if change != nil {
			change(n)
		}
		return n
	}
	pod := func(change func(*corev1.Pod)) client.Object {
		p := &corev1.Pod{}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		if change != nil {
			change(p)
		}
		return p
	}
	tests := map[string]struct {
		state    func(client.Object) map[string]string
		old, new client.Object
		want     bool
	}{
		"node: nothing":   {nodeState, node(nil), node(nil), false},
		"node: heartbeat": {nodeState, node(nil), node(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }), false},
		"node: ready":     {nodeState, node(nil), node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }), true},
		"node: role label, the end of kubeadm init": {nodeState, node(nil), node(func(n *corev1.Node) {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
		}), true},
		"node: provider ID": {nodeState, node(nil), node(func(n *corev1.Node) { n.Spec.ProviderID = "slipway://a/b/c" }), true},
		"node: taint":       {nodeState, node(nil), node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}} }), true},
		"pod: nothing":      {podState, pod(nil), pod(nil), false},
		"pod: ready":        {podState, pod(nil), pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }), true},
		"pod: phase":        {podState, pod(nil), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := changed(tt.state).Update(event.UpdateEvent{ObjectOld: tt.old, ObjectNew: tt.new}); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
