package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

var key = client.ObjectKey{Namespace: "default", Name: "a"}

// greeter is an API server that says its name to whoever connects.
func greeter(t *testing.T, name string) clusterv1.APIEndpoint {
	t.Helper()
	l := listenAt(t, 0)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, name)
			_ = c.Close()
		}
	}()
	return clusterv1.APIEndpoint{Host: "127.0.0.1", Port: int32(l.Addr().(*net.TCPAddr).Port)}
}

func listenAt(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newForwards(t *testing.T, c client.Client, dir string) (r *Forwards, stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r = &Forwards{Client: c, StateDir: dir, ctx: ctx, running: map[string]*forwarding{}, Dial: (&net.Dialer{}).DialContext, Listen: func(ctx context.Context, port int) (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}}
	stop = func() {
		cancel()
		for _, run := range r.running {
			<-run.done
		}
	}
	t.Cleanup(stop)
	return r, stop
}

func newCluster(t *testing.T, endpoint clusterv1.APIEndpoint) (client.Client, *clusterv1.Cluster) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	cluster.Spec.ControlPlaneEndpoint = endpoint
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build(), cluster
}

func reconcileOnce(t *testing.T, r *Forwards) (port int) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	table, err := statedir.ReadForwards(r.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	return table.Port(key)
}

func assertAnswers(t *testing.T, port int, want string) {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, _ := io.ReadAll(c); string(got) != want {
		t.Errorf("port %d answers %q, want %q", port, got, want)
	}
}

func assertClosed(t *testing.T, port int) {
	t.Helper()
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
		_ = c.Close()
		t.Errorf("port %d is still open", port)
	}
}

func TestForwarderFollowsTheCluster(t *testing.T) {
	c, cluster := newCluster(t, clusterv1.APIEndpoint{})
	r, _ := newForwards(t, c, t.TempDir())
	if port := reconcileOnce(t, r); port != 0 {
		t.Errorf("port %d for a cluster without an endpoint", port)
	}

	update := func(name string) {
		cluster.Spec.ControlPlaneEndpoint = greeter(t, name)
		if err := c.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	update("one")
	port := reconcileOnce(t, r)
	assertAnswers(t, port, "one")
	if again := reconcileOnce(t, r); again != port {
		t.Errorf("port %d became %d, and nothing had changed", port, again)
	}

	update("two")
	if moved := reconcileOnce(t, r); moved != port {
		t.Errorf("the port became %d, want %d as in the kubeconfig that was handed out", moved, port)
	}
	assertAnswers(t, port, "two")

	if err := c.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if left := reconcileOnce(t, r); left != 0 {
			t.Errorf("port %d of a deleted cluster", left)
		}
	}
	assertClosed(t, port)
}

func TestPortIsKeptOverARestart(t *testing.T) {
	c, _ := newCluster(t, greeter(t, "one"))
	dir := t.TempDir()
	first, stop := newForwards(t, c, dir)
	port := reconcileOnce(t, first)
	stop()
	assertClosed(t, port)

	second, stop := newForwards(t, c, dir)
	if again := reconcileOnce(t, second); again != port {
		t.Errorf("port %d became %d", port, again)
	}
	assertAnswers(t, port, "one")
	stop()

	// Taken by another program while the plane was down.
	listenAt(t, port)
	third, _ := newForwards(t, c, dir)
	other := reconcileOnce(t, third)
	if other == port || other == 0 {
		t.Fatalf("port %d, want another one than %d", other, port)
	}
	assertAnswers(t, other, "one")
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	if table, err := statedir.ReadForwards(dir); err != nil || len(table) != 0 {
		t.Errorf("no file: %v, %v", table, err)
	}
	if err := (statedir.Forwards{key.String(): 7}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if table, err := statedir.ReadForwards(dir); err != nil || table.Port(key) != 7 || table.Port(client.ObjectKey{Name: "b"}) != 0 {
		t.Errorf("got %v, %v", table, err)
	}
	if err := os.WriteFile(filepath.Join(dir, statedir.ForwardsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.ReadForwards(dir); err == nil {
		t.Error("a broken table was read")
	}
}

// TestForwarderThatEndsIsOpenedAgain holds that the port of a forwarder which ended by an error is
// requested again, and is then open with the same number.
func TestForwarderThatEndsIsOpenedAgain(t *testing.T) {
	c, _ := newCluster(t, greeter(t, "one"))
	r, _ := newForwards(t, c, t.TempDir())
	r.again = make(chan event.GenericEvent)
	var opened net.Listener
	listen := r.Listen
	r.Listen = func(ctx context.Context, port int) (net.Listener, error) {
		l, err := listen(ctx, port)
		opened = l
		return l, err
	}
	port := reconcileOnce(t, r)
	assertAnswers(t, port, "one")
	run := r.running[key.String()]
	_ = opened.Close()
	<-run.done
	if e := <-r.again; client.ObjectKeyFromObject(e.Object) != key {
		t.Errorf("%v is requested", e.Object)
	}
	if again := reconcileOnce(t, r); again != port {
		t.Errorf("port %d became %d", port, again)
	}
	assertAnswers(t, port, "one")
}
