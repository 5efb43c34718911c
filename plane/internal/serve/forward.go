package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// ListenFunc opens a port on 127.0.0.1 of the machine; port 0 takes a free one.
type ListenFunc func(ctx context.Context, port int) (net.Listener, error)

// Forwards keeps one forwarder for each Cluster that has an endpoint.
type Forwards struct {
	// Client reads Clusters.
	Client client.Reader
	// StateDir is where the table is kept.
	StateDir string
	// Listen opens ports.
	Listen ListenFunc
	// Dial connects to the endpoint of a Cluster, host:port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	ctx context.Context // life of the forwarders; set by SetupWithManager
	// again requests a Cluster whose forwarder ended by an error; set by SetupWithManager.
	again   chan event.GenericEvent
	mu      sync.Mutex
	running map[string]*forwarding
}

// reopenPause is the pause before the port of a forwarder that ended is opened again.
const reopenPause = time.Second

type forwarding struct {
	target string
	cancel context.CancelFunc
	// done is closed when it has ended, by cancel or by an error.
	done chan struct{}
}

func (r *forwarding) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// SetupWithManager adds the controller. The forwarders end with ctx.
func (r *Forwards) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	r.ctx, r.running, r.again = ctx, map[string]*forwarding{}, make(chan event.GenericEvent)
	skip := true
	return ctrl.NewControllerManagedBy(mgr).
		Named("forward").
		For(&clusterv1.Cluster{}).
		WatchesRawSource(source.Channel(r.again, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{SkipNameValidation: &skip}).
		Complete(r)
}

// Reconcile opens, moves or closes the forwarder of one Cluster.
func (r *Forwards) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, req.NamespacedName, cluster)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.remove(req.NamespacedName)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	endpoint := cluster.Spec.ControlPlaneEndpoint
	if !endpoint.IsValid() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.ensure(ctx, req.NamespacedName, net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port))))
}

func (r *Forwards) ensure(ctx context.Context, key client.ObjectKey, target string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.running[key.String()]; ok {
		if old.target == target && !old.ended() {
			return nil
		}
		r.stop(key)
	}
	table, err := statedir.ReadForwards(r.StateDir)
	if err != nil {
		return err
	}
	listener, err := r.Listen(ctx, table.Port(key))
	if errors.Is(err, syscall.EADDRINUSE) { // taken while the plane was down
		listener, err = r.Listen(ctx, 0)
	}
	if err != nil {
		return fmt.Errorf("open a port for cluster %s: %w", key, err)
	}
	table[key.String()] = listener.Addr().(*net.TCPAddr).Port
	if err := table.Write(r.StateDir); err != nil {
		return errors.Join(err, listener.Close())
	}
	r.start(key, target, listener)
	return nil
}

func (r *Forwards) start(key client.ObjectKey, target string, listener net.Listener) {
	ctx, cancel := context.WithCancel(r.ctx)
	run := &forwarding{target: target, cancel: cancel, done: make(chan struct{})}
	r.running[key.String()] = run
	log := ctrl.LoggerFrom(r.ctx).WithName("forward").WithValues("Cluster", klog.KRef(key.Namespace, key.Name), "address", listener.Addr().String())
	forwarder := &network.Forwarder{
		Listener:      listener,
		Dial:          func(ctx context.Context) (net.Conn, error) { return r.Dial(ctx, "tcp", target) },
		OnAcceptError: func(err error) { log.Error(err, "Cannot take in connections, trying again") },
	}
	go func() {
		err := forwarder.Serve(ctx)
		close(run.done)
		if err != nil {
			log.Error(err, "Forwarder ended, opening the port again", "after", reopenPause)
			r.reopen(ctx, key)
		}
	}()
	log.Info("Forwarding to the workload cluster", "target", target)
}

// reopen requests a Cluster after a pause, unless ctx ends before.
func (r *Forwards) reopen(ctx context.Context, key client.ObjectKey) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(reopenPause):
	}
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	select {
	case <-ctx.Done():
	case r.again <- event.GenericEvent{Object: cluster}:
	}
}

func (r *Forwards) stop(key client.ObjectKey) {
	if run, ok := r.running[key.String()]; ok {
		run.cancel()
		<-run.done
		delete(r.running, key.String())
	}
}

func (r *Forwards) remove(key client.ObjectKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop(key)
	table, err := statedir.ReadForwards(r.StateDir)
	if err != nil || table.Port(key) == 0 {
		return err
	}
	delete(table, key.String())
	return table.Write(r.StateDir)
}
