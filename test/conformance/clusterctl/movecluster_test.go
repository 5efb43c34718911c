package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
	"github.com/slipway-dev/slipway/test/simagent"
)

const (
	clusterName = "c1"
	kubernetesV = "v1.36.3"
)

// create makes objects on a management cluster.
func (m *management) create(objects ...client.Object) {
	m.t.Helper()
	for _, object := range objects {
		if err := m.Client.Create(m.t.Context(), object); err != nil {
			m.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// machine is a simulated host that can be switched off and on.
type machine struct {
	*simagent.Machine
	t      *testing.T
	resets atomic.Int32
	log    *os.File

	stop func()
}

// newMachine is switched off.
func newMachine(t *testing.T, home *management, workload kubernetes.Interface, name string) *machine {
	t.Helper()
	dir := t.TempDir()
	bootstrap := filepath.Join(dir, "bootstrap-kubeconfig")
	if err := os.WriteFile(bootstrap, home.bootstrapKubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t}
	var err error
	if m.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	m.Machine = &simagent.Machine{
		StateDir: dir, BootstrapKubeconfig: bootstrap, Namespace: team, Name: name,
		Nodes: simagent.Kubelets{Client: workload}, Version: kubernetesV,
		HeartbeatInterval: time.Second, LeaseDuration: 5 * time.Second, Patience: 5 * time.Second,
		Wrap: func(inner operation.Executor) operation.Executor { return &counting{inner, &m.resets} },
		Log:  slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	t.Cleanup(func() {
		m.off()
		if !t.Failed() {
			return
		}
		const last = 3000
		if text, err := os.ReadFile(m.log.Name()); err == nil {
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-last):])
		}
	})
	return m
}

// on switches the machine on.
func (m *machine) on() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			m.t.Errorf("the agent of %s ended: %v", m.Name, err)
		}
	})
	m.stop = func() { cancel(); running.Wait() }
}

// off switches it off.
func (m *machine) off() {
	if m.stop != nil {
		m.stop()
	}
	m.stop = nil
}

// counting counts resets.
type counting struct {
	operation.Executor
	resets *atomic.Int32
}

// Reset implements operation.Executor.
func (c *counting) Reset(ctx context.Context, progress operation.Progress) error {
	c.resets.Add(1)
	return c.Executor.Reset(ctx, progress)
}

// world is a Cluster on simulated hosts: a control-plane machine, a pool of two, and
// a host that is free.
type world struct {
	t        *testing.T
	kit      *judge.Kit
	workload *judge.Plane
	nodes    kubernetes.Interface
	machines []*machine
	// workers is the size of the pool.
	workers int
}

// newWorld has only the API server of the workload cluster. It outlives the management
// clusters that are made after it and hold connections to it.
func newWorld(t *testing.T, kit *judge.Kit) *world {
	t.Helper()
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, kit: kit, workers: 2}
	if w.workload, err = judge.StartServer(scheme); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.workload.Stop(); err != nil {
			t.Error(err)
		}
	})
	if w.nodes, err = kubernetes.NewForConfig(w.workload.Config); err != nil {
		t.Fatal(err)
	}
	return w
}

// build makes the Cluster on home and waits until all its nodes are there.
func (w *world) build(home *management) {
	w.t.Helper()
	for i := range 4 {
		m := newMachine(w.t, home, w.nodes, fmt.Sprintf("host-%d", i+1))
		w.machines = append(w.machines, m)
		m.on()
	}
	w.makeCluster(home)
	w.awaitRunning(home, w.workers)
}

// endpoint is the address of the workload cluster.
func (w *world) endpoint() clusterv1.APIEndpoint {
	w.t.Helper()
	address, err := url.Parse(w.workload.Config.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	number, portErr := strconv.ParseInt(port, 10, 32)
	if err = errors.Join(err, portErr); err != nil {
		w.t.Fatal(err)
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(number)}
}

func meta(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: team, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}}
	for _, label := range labels {
		m.Labels[label] = ""
	}
	return m
}

func infrastructure(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}

func config(name string) clusterv1.Bootstrap {
	return clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: name,
	}}
}

// makeCluster makes a Cluster whose bootstrap data is kubeadm's.
func (w *world) makeCluster(home *management) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: meta(clusterName)}
	cluster.Spec.InfrastructureRef = infrastructure("HostCluster", clusterName)
	home.create(cluster, &infrav1.HostCluster{ObjectMeta: meta(clusterName), Spec: infrav1.HostClusterSpec{
		ControlPlaneEndpoint: w.endpoint(), Endpoint: infrav1.EndpointSpec{Type: infrav1.EndpointExternal},
	}})
	data, err := judge.Kubeconfig(w.workload.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	home.create(kubeconfig.GenerateSecret(cluster, data))

	const controlPlane = "control-plane"
	home.create(
		&bootstrapv1.KubeadmConfig{ObjectMeta: meta(controlPlane)},
		&infrav1.HostMachine{ObjectMeta: meta(controlPlane, clusterv1.MachineControlPlaneLabel)},
		&clusterv1.Machine{ObjectMeta: meta(controlPlane, clusterv1.MachineControlPlaneLabel), Spec: clusterv1.MachineSpec{
			ClusterName: clusterName, Version: kubernetesV, Bootstrap: config(controlPlane), InfrastructureRef: infrastructure("HostMachine", controlPlane),
		}},
		&bootstrapv1.KubeadmConfig{ObjectMeta: meta("workers"), Spec: bootstrapv1.KubeadmConfigSpec{
			JoinConfiguration: bootstrapv1.JoinConfiguration{NodeRegistration: bootstrapv1.NodeRegistrationOptions{Name: "{{ ds.meta_data.hostname }}"}},
		}},
		&infrav1.HostMachinePool{ObjectMeta: meta("workers")},
		&clusterv1.MachinePool{ObjectMeta: meta("workers"), Spec: clusterv1.MachinePoolSpec{
			ClusterName: clusterName, Replicas: ptr.To[int32](2),
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: clusterName, Version: kubernetesV, Bootstrap: config("workers"), InfrastructureRef: infrastructure("HostMachinePool", "workers"),
			}},
		}},
	)
}

// awaitRunning waits until a management cluster has all that is to be known of the
// Cluster: core counts the Nodes, every host is connected, and every claimed one runs.
func (w *world) awaitRunning(m *management, workers int) {
	w.t.Helper()
	eventually(w.t, "the Cluster runs", func(ctx context.Context) error {
		cluster := &clusterv1.Cluster{}
		if err := m.Client.Get(ctx, client.ObjectKey{Namespace: team, Name: clusterName}, cluster); err != nil {
			return err
		}
		if !conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition) {
			return errors.New("core does not know that the control plane is initialized")
		}
		pool := &clusterv1.MachinePool{}
		if err := m.Client.Get(ctx, client.ObjectKey{Namespace: team, Name: "workers"}, pool); err != nil {
			return err
		}
		if len(pool.Status.NodeRefs) != workers || ptr.Deref(pool.Status.Replicas, 0) != int32(workers) {
			return fmt.Errorf("core counts %d Nodes, %d replicas of the pool", len(pool.Status.NodeRefs), ptr.Deref(pool.Status.Replicas, 0))
		}
		machines := &clusterv1.MachineList{}
		if err := m.Client.List(ctx, machines, client.InNamespace(team)); err != nil {
			return err
		}
		for _, machine := range machines.Items {
			if !machine.Status.NodeRef.IsDefined() || machine.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("Machine %s is %s", machine.Name, machine.Status.Phase)
			}
		}
		if len(machines.Items) != workers+1 {
			return fmt.Errorf("%d Machines", len(machines.Items))
		}
		return w.hostsAre(ctx, m, workers+1)
	})
}

// hostsAre checks that the machines that are on are connected, and how many are claimed.
func (w *world) hostsAre(ctx context.Context, m *management, claimed int) error {
	hosts := &infrav1.HostList{}
	if err := m.Client.List(ctx, hosts, client.InNamespace(team)); err != nil {
		return err
	}
	if len(hosts.Items) != len(w.machines) {
		return fmt.Errorf("%d Hosts", len(hosts.Items))
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if h.Spec.Claim != nil {
			claimed--
		}
		want := metav1.ConditionFalse
		if w.machine(h.Name).stop != nil {
			want = metav1.ConditionTrue
		}
		for _, c := range h.Status.Conditions {
			if c.Type == infrav1.AgentConnectedCondition && c.Status != want {
				return fmt.Errorf("Host %s: %s %s", h.Name, c.Reason, c.Message)
			}
		}
		if phase := h.Status.Phase; want == metav1.ConditionTrue && phase != infrav1.HostPhaseRunning && phase != infrav1.HostPhaseAvailable {
			return fmt.Errorf("Host %s is %s", h.Name, phase)
		}
	}
	if claimed != 0 {
		return fmt.Errorf("%d more Hosts should be claimed", claimed)
	}
	return nil
}

func (w *world) machine(name string) *machine {
	for _, m := range w.machines {
		if m.Name == name {
			return m
		}
	}
	w.t.Fatalf("there is no machine %s", name)
	return nil
}

// nothingHappened checks that no host was reset and no Node was replaced since before.
func (w *world) nothingHappened(before map[string]string) {
	w.t.Helper()
	for _, m := range w.machines {
		if n := m.resets.Load(); n != 0 {
			w.t.Errorf("%s was reset %d times", m.Name, n)
		}
	}
	after := w.nodeUIDs()
	for name, uid := range before {
		if after[name] != uid {
			w.t.Errorf("Node %s had UID %s and has %q", name, uid, after[name])
		}
	}
}

func (w *world) nodeUIDs() map[string]string {
	w.t.Helper()
	list, err := w.nodes.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	uids := map[string]string{}
	for _, node := range list.Items {
		uids[node.Name] = string(node.UID)
	}
	return uids
}

// claims are the claims of all hosts by name.
func (w *world) claims(m *management) map[string]infrav1.HostClaim {
	w.t.Helper()
	hosts := &infrav1.HostList{}
	if err := m.Client.List(w.t.Context(), hosts, client.InNamespace(team)); err != nil {
		w.t.Fatal(err)
	}
	claims := map[string]infrav1.HostClaim{}
	for _, h := range hosts.Items {
		claims[h.Name] = ptr.Deref(h.Spec.Claim, infrav1.HostClaim{})
	}
	return claims
}
