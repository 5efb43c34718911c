package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// A Cluster on running hosts goes from one management cluster to another and back, and
// again while a host is off and clusterctl is killed. The steps build on each other.
func TestMove(t *testing.T) {
	begin(t, 2)
	w := newWorld(t, judge.NewKit())
	a, b := newManagement(t, w.kit), newManagement(t, w.kit)
	w.build(a)
	if listed := a.follow("Enroll hosts", "get hosts", "NAMESPACE", team); !strings.Contains(listed, w.machines[0].Name) {
		t.Errorf("the hosts that were enrolled are\n%s", listed)
	}
	nodes, claims := w.nodeUIDs(), w.claims(a)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"nobody is there", func(t *testing.T) {
			w.nobodyThere(t, a, b)
			a.handOver(b)
			w.awaitReadyToMove(a)
		}},
		{"owners", func(t *testing.T) { everythingIsOwned(t, a) }},
		{"no provider", func(t *testing.T) { w.targetWithoutProvider(t, a, b) }},
		{"out of reach", func(t *testing.T) { w.targetOutOfReach(t, a, b) }},
		{"there", func(*testing.T) {
			a.run("move", "-n", team, "--to-kubeconfig", b.kubeconfig)
			w.arrived(b, a, claims)
		}},
		{"describe", func(t *testing.T) { describes(t, b) }},
		{"back by hand with a host off, killed", func(*testing.T) {
			a.deleteHandOver()
			w.machines[0].off()
			w.awaitAway(b, w.machines[0].Name)
			b.requestHandOver(nil)
			w.awaitReadyToMove(b)
			w.killedMove(b, a, watch.Added, a, &infrav1.HostList{})
			b.unpause()
			b.run("move", "-n", team, "--to-kubeconfig", a.kubeconfig)
			b.changeHandOver(a.bootstrapKubeconfig)
			w.arrived(a, b, claims)
			b.deleteHandOver()
			b.handOver(a)
			w.machines[0].on()
			w.arrived(a, b, claims)
		}},
		{"alive", func(*testing.T) {
			w.scale(a, 3)
			w.workers = 3
			w.awaitRunning(a, w.workers)
		}},
		{"there again, killed while it deletes", func(*testing.T) {
			b.deleteHandOver()
			a.handOver(b)
			w.awaitReadyToMove(a)
			claims = w.claims(a)
			w.killedMove(a, b, watch.Deleted, a, &infrav1.HostMachineList{})
			b.unpause()
			a.deleteLeftovers()
			w.arrived(b, a, claims)
		}},
		{"restore", func(t *testing.T) {
			a.deleteHandOver()
			b.handOver(a)
			w.awaitReadyToMove(b)
			backup := t.TempDir()
			b.run("move", "-n", team, "--to-directory", backup)
			w.unchanged(b)
			b.lose()
			a.run("move", "--from-directory", backup, "--to-kubeconfig", a.kubeconfig)
			w.stayWithSilence(a)
			a.follow("Backup and restore", infrav1.RestoredAnnotation, "NAMESPACE", team)
			w.awaitRunning(a, w.workers)
			if got := w.claims(a); !equality.Semantic.DeepEqual(got, claims) {
				t.Errorf("claims are %v, and were %v", got, claims)
			}
		}},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			for _, who := range []*management{a, b} {
				outer := who.t
				who.t = t
				defer func() { who.t = outer }()
			}
			w.t = t
			step.run(t)
			w.nothingHappened(nodes)
		}) {
			return
		}
	}
}

// heldUp is how long clusterctl is watched that waits for hosts: it looks again after five
// seconds, and would give up by itself after minutes.
const heldUp = 8 * time.Second

// nobodyThere: no agent answers, and nobody has said where the hosts go, so that none would
// ever find out. clusterctl waits, and nothing is in the target.
func (w *world) nobodyThere(t *testing.T, from, to *management) {
	t.Helper()
	for _, m := range w.machines {
		m.off()
	}
	for _, m := range w.machines {
		w.awaitAway(from, m.Name)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	done := make(chan error, 1)
	go func() {
		_, _, err := from.tryContext(ctx, "move", "-n", team, "--to-kubeconfig", to.kubeconfig)
		done <- err
	}()
	// It is asked once clusterctl has paused the Cluster.
	w.awaitHosts(from, "the hosts hold up the move and say why", func(h *infrav1.Host) string {
		if c := conditions.Get(h, infrav1.ReadyToMoveCondition); !host.BlocksMove(h) || c == nil || c.Reason != infrav1.HostNoHandOverReason {
			return fmt.Sprintf("%v %+v", h.Annotations, c)
		}
		return ""
	})
	select {
	case err := <-done:
		t.Errorf("clusterctl came to an end: %v", err)
	case <-time.After(heldUp):
		kill()
		if err := <-done; err == nil {
			t.Error("clusterctl came to its end before it was killed")
		}
	}
	clusters := &clusterv1.ClusterList{}
	if err := to.Client.List(t.Context(), clusters); err != nil || len(clusters.Items) > 0 || len(w.claims(to)) > 0 {
		t.Errorf("the target has %d Clusters, %v, %v", len(clusters.Items), w.claims(to), err)
	}
	from.unpause()
	for _, m := range w.machines {
		m.on()
	}
	w.unchanged(from)
}

// targetWithoutProvider: clusterctl refuses before it changed anything.
func (w *world) targetWithoutProvider(t *testing.T, from, to *management) {
	t.Helper()
	empty := &management{user: newUser(t, shared.repository)}
	empty.writeKubeconfig(w.workload.Config)
	from.refused("failed to check Cluster API version", "move", "-n", team, "--to-kubeconfig", empty.kubeconfig)
	w.unchanged(from)

	inventory := &unstructured.Unstructured{}
	inventory.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("Provider"))
	if err := to.Client.Get(t.Context(), client.ObjectKey{Namespace: "slipway-system", Name: "infrastructure-slipway"}, inventory); err != nil {
		t.Fatal(err)
	}
	if err := to.Client.Delete(t.Context(), inventory.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	from.refused("provider infrastructure-slipway not found in the target cluster", "move", "-n", team, "--to-kubeconfig", to.kubeconfig)
	inventory.SetResourceVersion("")
	to.create(inventory)
	w.unchanged(from)
}

// targetOutOfReach: an agent that cannot reach the target holds up the move, and says so.
func (w *world) targetOutOfReach(t *testing.T, from, to *management) {
	t.Helper()
	nowhere := strings.Replace(string(to.bootstrapKubeconfig), to.Config.Host, "https://127.0.0.1:1", 1)
	from.changeHandOver([]byte(nowhere))
	from.pause(true)
	w.awaitHosts(from, "the hosts hold up the move and say why", func(h *infrav1.Host) string {
		c := conditions.Get(h, infrav1.ReadyToMoveCondition)
		if !host.BlocksMove(h) || c == nil || !strings.Contains(c.Message, "cannot reach https://127.0.0.1:1") {
			return fmt.Sprintf("%v %+v", h.Annotations, c)
		}
		return ""
	})
	from.changeHandOver(to.bootstrapKubeconfig)
	w.awaitHosts(from, "the hosts let go", func(h *infrav1.Host) string {
		if host.BlocksMove(h) {
			return fmt.Sprintf("%+v", conditions.Get(h, infrav1.ReadyToMoveCondition))
		}
		return ""
	})
	from.unpause()
	w.awaitHosts(from, "the hosts hold up moves again", func(h *infrav1.Host) string {
		if !host.BlocksMove(h) {
			return "it does not"
		}
		return ""
	})
	w.unchanged(from)
}

// unchanged checks that the Cluster is there, not paused, and runs.
func (w *world) unchanged(m *management) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := m.Client.Get(w.t.Context(), client.ObjectKey{Namespace: team, Name: clusterName}, cluster); err != nil || ptr.Deref(cluster.Spec.Paused, false) {
		w.t.Errorf("the Cluster is gone or paused: %v", err)
	}
	w.awaitRunning(m, w.workers)
}

// killedMove kills clusterctl as soon as something happens to an object of a list in one
// of the two management clusters.
func (w *world) killedMove(from, to *management, what watch.EventType, where *management, list client.ObjectList) {
	w.t.Helper()
	events, err := where.Client.Watch(w.t.Context(), list, client.InNamespace(team))
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Stop()
	ctx, kill := context.WithCancel(w.t.Context())
	defer kill()
	done := make(chan error, 1)
	go func() {
		_, _, err := from.tryContext(ctx, "move", "-n", team, "--to-kubeconfig", to.kubeconfig)
		done <- err
	}()
	for event := range events.ResultChan() {
		if event.Type == what {
			break
		}
	}
	kill()
	if err := <-done; err == nil {
		w.t.Error("clusterctl came to its end before it was killed")
	}
	if got := w.claims(from); len(got) != len(w.machines) {
		w.t.Errorf("the source has only %d Hosts", len(got))
	}
}

// deleteLeftovers finishes what clusterctl has begun, as docs/clusterctl.md tells.
func (m *management) deleteLeftovers() {
	m.t.Helper()
	m.follow("When it does not go through", "delete-for-move", "NAMESPACE", team)
}

// stayWithSilence: the agents see their Hosts in the copy of a backup, and don't go there
// for the silence of the management cluster that served them, which may live.
func (w *world) stayWithSilence(in *management) {
	w.t.Helper()
	for _, m := range w.machines {
		eventually(w.t, m.Name+" sees its Host in the copy", func(context.Context) error {
			text, err := os.ReadFile(m.log.Name())
			if err == nil && !strings.Contains(string(text), "did not let go of it") {
				err = errors.New("its log does not say that it stays")
			}
			return err
		})
	}
	hosts := &infrav1.HostList{}
	if err := in.Client.List(w.t.Context(), hosts, client.InNamespace(team)); err != nil {
		w.t.Fatal(err)
	}
	for i := range hosts.Items {
		if conditions.IsTrue(&hosts.Items[i], infrav1.AgentConnectedCondition) {
			w.t.Errorf("the agent of %s went to a copy", hosts.Items[i].Name)
		}
	}
}

// describes checks that clusterctl shows our objects with what they say of themselves.
func describes(t *testing.T, m *management) {
	t.Helper()
	described := m.run("describe", "cluster", clusterName, "-n", team, "--show-conditions", "all", "--grouping=false", "--echo")
	for _, want := range []string{
		`HostCluster team/c1`, `HostMachinePool team/workers`, `HostMachine team/control-plane`,
		`Ready +True +Provisioned`, `HostClaimed +True +Claimed +\S+ +Host host-`, `BootstrapSucceeded +True +Succeeded`, `UpToDate +True +UpToDate`,
	} {
		if !regexp.MustCompile(want).MatchString(described) {
			t.Errorf("clusterctl describe lacks %s:\n%s", want, described)
		}
	}
}

// awaitAway waits until a host that was switched off is known to be away.
func (w *world) awaitAway(m *management, name string) {
	w.t.Helper()
	w.awaitHosts(m, name+" is away", func(h *infrav1.Host) string {
		if h.Name == name && !conditions.IsFalse(h, infrav1.AgentConnectedCondition) {
			return "it is connected"
		}
		return ""
	})
}

// awaitHosts waits until nothing is missing of any claimed host.
func (w *world) awaitHosts(m *management, what string, missing func(*infrav1.Host) string) {
	w.t.Helper()
	eventually(w.t, what, func(ctx context.Context) error {
		hosts := &infrav1.HostList{}
		if err := m.Client.List(ctx, hosts, client.InNamespace(team)); err != nil {
			return err
		}
		for i := range hosts.Items {
			h := &hosts.Items[i]
			if h.Spec.Claim == nil {
				continue
			}
			if problem := missing(h); problem != "" {
				return fmt.Errorf("Host %s: %s", h.Name, problem)
			}
		}
		return nil
	})
}

// awaitReadyToMove waits until all claimed hosts say so.
func (w *world) awaitReadyToMove(m *management) {
	w.t.Helper()
	w.awaitHosts(m, "the hosts are ready to move", func(h *infrav1.Host) string {
		if !conditions.IsTrue(h, infrav1.ReadyToMoveCondition) {
			return fmt.Sprintf("%+v", conditions.Get(h, infrav1.ReadyToMoveCondition))
		}
		return ""
	})
}

// arrived checks that the Cluster runs in one management cluster, with the claims it
// had, and that nothing is left in the other.
func (w *world) arrived(to, from *management, claims map[string]infrav1.HostClaim) {
	w.t.Helper()
	w.awaitRunning(to, w.workers)
	if got := w.claims(to); !equality.Semantic.DeepEqual(got, claims) {
		w.t.Errorf("claims are %v, and were %v", got, claims)
	}
	if left := w.claims(from); len(left) > 0 {
		w.t.Errorf("the source still has %v", left)
	}
	clusters := &clusterv1.ClusterList{}
	if err := from.Client.List(w.t.Context(), clusters); err != nil || len(clusters.Items) > 0 {
		w.t.Errorf("the source still has %d Clusters, %v", len(clusters.Items), err)
	}
}

func (m *management) changeHandOver(kubeconfig []byte) {
	m.t.Helper()
	m.change(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: infrav1.HandOverSecretName}}, func(o client.Object) {
		o.(*corev1.Secret).Data[infrav1.HandOverKubeconfigKey] = kubeconfig
	})
}

func (m *management) unpause() { m.pause(false) }

func (m *management) pause(paused bool) {
	m.t.Helper()
	m.change(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: clusterName}}, func(o client.Object) {
		o.(*clusterv1.Cluster).Spec.Paused = ptr.To(paused)
	})
}

// change reads an object, changes it and writes it, anew after a conflict.
func (m *management) change(o client.Object, mutate func(client.Object)) {
	m.t.Helper()
	eventually(m.t, fmt.Sprintf("%T is changed", o), func(ctx context.Context) error {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		mutate(o)
		return m.Client.Update(ctx, o)
	})
}

func (m *management) deleteHandOver() {
	m.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: infrav1.HandOverSecretName}}
	if err := m.Client.Delete(m.t.Context(), secret); err != nil {
		m.t.Fatal(err)
	}
}

// scale sets the size of the pool.
func (w *world) scale(m *management, replicas int32) {
	w.t.Helper()
	m.change(&clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "workers"}}, func(o client.Object) {
		o.(*clusterv1.MachinePool).Spec.Replicas = ptr.To(replicas)
	})
}
