package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// effect does one thing to the plane.
type effect func(context.Context, *plane, Step) error

// fault is a kind of fault and its effects. undo is set if Longest is.
type fault struct {
	Kind
	apply, undo effect
}

const createSecond = "create a second Cluster"

// faults are all there are; docs/reliability.md groups them. Another order, or another
// fault, makes another schedule of each seed.
var faults = []fault{
	scale("scale the MachinePool", "machinePools", 0, func(s *State) *int { return &s.Pool }),
	scale("scale the MachineDeployment", "machineDeployments", 0, func(s *State) *int { return &s.Deployment }),
	{
		// Of a MachineSet it would be for a health check to replace the Machine.
		Kind: Kind{Name: "delete a HostMachine of the pool", Needs: thePlane, Draw: pick},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return p.removeOne(ctx, hostMachineResource, poolMembers, s.Pick)
		},
	},
	{
		Kind: Kind{Name: "delete a Machine", Needs: thePlane, Draw: pick},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return p.removeOne(ctx, machineResource, workers, s.Pick)
		},
	},
	{
		Kind:  Kind{Name: "delete all HostMachines of the pool", Needs: thePlane, Draw: pick},
		apply: removeMembers,
	},
	{
		Kind:  Kind{Name: "cut the power of a host", Fits: aHost, Draw: anyHost, Longest: 40 * time.Second},
		apply: onHost("power-off"), undo: onHost("power-on"),
	},
	{
		Kind:  Kind{Name: "power-cycle a host", Fits: aHost, Draw: anyHost},
		apply: onHost("power-cycle"),
	},
	{
		Kind:  Kind{Name: "cut the link of a host", Fits: aHost, Draw: anyHost, Longest: 40 * time.Second},
		apply: onHost("cut"), undo: onHost("heal"),
	},
	{
		Kind:  Kind{Name: "kill an agent", Fits: aHost, Draw: anyHost},
		apply: signalAgent(syscall.SIGKILL),
	},
	{
		Kind:  Kind{Name: "stop an agent", Fits: aHost, Draw: anyHost, Longest: 40 * time.Second},
		apply: signalAgent(syscall.SIGSTOP), undo: signalAgent(syscall.SIGCONT),
	},
	{
		Kind:  Kind{Name: "kill the plane", Draw: nothing, Holds: thePlane, Longest: 10 * time.Second},
		apply: kill((*plane).pid), undo: func(ctx context.Context, p *plane, _ Step) error { return p.up(ctx, "--no-cluster") },
	},
	{
		Kind:  Kind{Name: "kill the lifecycle engine", Needs: thePlane, Draw: nothing},
		apply: kill((*plane).lifecyclePID),
	},
	{
		Kind:  Kind{Name: "pause the Cluster", Needs: thePlane, Draw: nothing, Holds: theCluster, Longest: 30 * time.Second},
		apply: paused(true), undo: paused(false),
	},
	{
		Kind:  Kind{Name: "roll out the workers", Needs: thePlane, Draw: templates},
		apply: rollOut,
	},
	{
		Kind: Kind{
			Name:  createSecond,
			Needs: thePlane,
			Fits:  func(s *State) bool { return s.Second == 0 && s.Spare() > 0 },
			Draw: func(_ *rand.Rand, s *State) Arguments {
				s.Made++
				s.Second = s.Made
				return Arguments{Value: s.Second}
			},
		},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return client.IgnoreAlreadyExists(p.createYAML(ctx, clusterResource, cluster(second(s.Value), "10.88.0."+strconv.Itoa(201+s.Value%40), "")))
		},
	},
	{
		Kind: Kind{
			Name:  "delete the second Cluster",
			Needs: thePlane,
			Fits:  aSecond,
			Draw:  takeSecond,
		},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return p.remove(ctx, clusterResource, second(s.Value))
		},
	},
	{
		// Upstream writes it again with the next token, which is longer away than a round is
		// allowed to take: it is restored before.
		Kind:  Kind{Name: "delete the bootstrap Secret of the pool", Needs: thePlane, Draw: nothing, Holds: theSecret, Longest: 40 * time.Second},
		apply: removeSecret, undo: restoreSecret,
	},
	{
		// What is claimed goes once its machine has gone.
		Kind:  Kind{Name: "delete a Host", Needs: thePlane, Fits: aHost, Draw: anyHost},
		apply: func(ctx context.Context, p *plane, s Step) error { return p.remove(ctx, hostResource, s.Host) },
	},
	{
		// One host is free for the machine that joins; a second control plane would wait for another.
		Kind: Kind{Name: "roll out a control plane that runs kubeadm init", Needs: thePlane, Fits: oneCluster, Draw: func(_ *rand.Rand, s *State) Arguments {
			s.Made++
			return Arguments{Value: s.Made}
		}, Holds: theAddress, Longest: 40 * time.Second},
		apply: joinWithoutTheElected, undo: signalElected(syscall.SIGCONT),
	},
	{
		// However long a deletion lasts, it makes nothing claim a host.
		Kind:  Kind{Name: "delay the deletion of a Machine", Needs: thePlane, Draw: pick, Holds: theDeletion, Longest: 40 * time.Second},
		apply: deleteMachine, undo: endHoldUp(machineResource),
	},
	{
		// Its MachineDeployment makes another one, whose machines claim the hosts.
		Kind:  Kind{Name: "delay the deletion of a MachineSet", Needs: thePlane, Draw: pick, Holds: theDeletion, Longest: 40 * time.Second},
		apply: deleteMachineSet, undo: endHoldUp(machineSetResource),
	},
	{
		Kind: Kind{
			Name: "delay the deletion of the second Cluster", Needs: thePlane, Holds: theDeletion, Longest: 40 * time.Second,
			Fits: aSecond,
			Draw: takeSecond,
		},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return p.deleteHeldUp(ctx, clusterResource, second(s.Value), holdUpAtTheEnd)
		},
		undo: endHoldUp(clusterResource),
	},
	{
		Kind:  Kind{Name: "poison the report of a host", Needs: thePlane, Fits: aHost, Draw: anyHost},
		apply: poison,
	},
	{
		Kind: Kind{Name: "leave things on a host", Needs: thePlane, Fits: aHost, Draw: func(r *rand.Rand, s *State) Arguments {
			drawn := anyHost(r, s)
			drawn.Pick = r.IntN(1 << 30)
			return drawn
		}},
		apply: leaveSome,
	},
}

func oneCluster(s *State) bool { return s.Second == 0 }

// joinWithoutTheElected rolls the control plane out, and stops the agent of the host that has its
// address when another host is to join. The kernel of the one drops the address soon, and the other
// must stay without it: it makes no control plane. Without a free host nothing joins, and the agent is
// stopped all the same.
func joinWithoutTheElected(ctx context.Context, p *plane, s Step) error {
	if err := rollOutControlPlane(ctx, p, s); err != nil {
		return err
	}
	p.elected = ""
	for range 60 {
		hosts, err := p.client.Resource(hostResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		joining := false
		for i := range hosts.Items {
			of, _, _ := unstructured.NestedString(hosts.Items[i].Object, "spec", "claim", "clusterName")
			controlPlane, _, _ := unstructured.NestedBool(hosts.Items[i].Object, "spec", "claim", "controlPlane")
			state, _, _ := unstructured.NestedString(hosts.Items[i].Object, "status", "virtualIP", "state")
			switch {
			case of != "local" || !controlPlane:
			case state == "Held":
				p.elected = hosts.Items[i].GetName()
			default:
				joining = true
			}
		}
		if joining {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return signalElected(syscall.SIGSTOP)(ctx, p, s)
}

// signalElected signals the agent of the host that had the address when the fault began.
func signalElected(signal syscall.Signal) effect {
	return func(ctx context.Context, p *plane, s Step) error {
		s.Host = p.elected
		if s.Host == "" {
			return nil
		}
		return signalAgent(signal)(ctx, p, s)
	}
}

// commands of users with kubeadm init, by where they are: as a command, before kubeadm, in capitals, and in a
// file that a command runs. Not upload-config: without a file it writes a configuration without the endpoint,
// and then nobody joins.
var commands = []struct{ field, command, file string }{
	{"postKubeadmCommands", "kubeadm init phase upload-certs --upload-certs || true", ""},
	{"preKubeadmCommands", "kubeadm init --help > /dev/null", ""},
	{"preKubeadmCommands", "echo KUBEADM INIT: kubeadm init", ""},
	{"postKubeadmCommands", "sh /etc/slipway-chaos.sh", "#!/bin/sh\nkubeadm init phase upload-certs --upload-certs || true\n"},
}

// rollOutControlPlane gives the control plane a template whose machines run kubeadm init besides their
// own, as users do to upload certificates anew. Such a machine is not the first one of its cluster.
func rollOutControlPlane(ctx context.Context, p *plane, s Step) error {
	from, err := p.client.Resource(controlPlaneResource).Namespace(namespace).Get(ctx, "slipway-local", metav1.GetOptions{})
	if err != nil {
		return err
	}
	to := &unstructured.Unstructured{Object: map[string]any{"spec": from.Object["spec"]}}
	to.SetGroupVersionKind(from.GroupVersionKind())
	to.SetName("chaos-" + strconv.Itoa(s.Value))
	config := []string{"spec", "template", "spec", "kubeadmConfigSpec"}
	c := commands[s.Value%len(commands)]
	if err := appendNested(to, c.command+" # "+to.GetName(), append(config, c.field)...); err != nil {
		return err
	}
	if c.file != "" {
		file := map[string]any{"path": "/etc/slipway-chaos.sh", "permissions": "0755", "content": c.file}
		if err := appendNested(to, file, append(config, "files")...); err != nil {
			return err
		}
	}
	if err := p.create(ctx, controlPlaneResource, to); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return p.patch(ctx, classResource, "slipway-local", patch{"replace", "/spec/controlPlane/templateRef/name", to.GetName()})
}

// deleteMachine deletes a worker's Machine that a hook keeps before its drain, or a finalizer once
// its host is free.
func deleteMachine(ctx context.Context, p *plane, s Step) error {
	names, err := p.names(ctx, machineResource, workers)
	if err != nil || len(names) == 0 {
		return err
	}
	hold := holdUpAtTheEnd
	if s.Pick%2 == 0 {
		hold = holdUpBeforeTheDrain
	}
	return p.deleteHeldUp(ctx, machineResource, names[s.Pick/2%len(names)], hold)
}

// deleteMachineSet deletes a MachineSet that has Machines, or is to have them.
func deleteMachineSet(ctx context.Context, p *plane, s Step) error {
	sets, err := p.client.Resource(machineSetResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names []string
	for _, set := range sets.Items {
		if replicas, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas"); replicas > 0 && set.GetDeletionTimestamp().IsZero() {
			names = append(names, set.GetName())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return p.deleteHeldUp(ctx, machineSetResource, names[s.Pick%len(names)], holdUpAtTheEnd)
}

func (p *plane) deleteHeldUp(ctx context.Context, resource schema.GroupVersionResource, name string, hold func(*unstructured.Unstructured)) error {
	p.heldUp = name
	if err := p.update(ctx, resource, name, hold); err != nil {
		return err
	}
	return p.remove(ctx, resource, name)
}

// endHoldUp lets the object go that is being deleted and kept.
func endHoldUp(resource schema.GroupVersionResource) effect {
	return func(ctx context.Context, p *plane, _ Step) error {
		if p.heldUp == "" {
			return nil
		}
		return p.update(ctx, resource, p.heldUp, letGo)
	}
}

// poisons are reports that no reader in Go decodes: one that is stored would end every list of Hosts.
var poisons = []string{
	`{"status":{"capacity":{"cpu":"1e1.5"}}}`,
	`{"status":{"capacity":{"memory":"1e99999999"}}}`,
	`{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01t00:00:00Z"}]}}`,
}

// poison reports what must be refused.
func poison(ctx context.Context, p *plane, s Step) error {
	for _, text := range poisons {
		_, err := p.client.Resource(hostResource).Namespace(namespace).Patch(ctx, s.Host, types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status")
		switch {
		case err == nil:
			return fmt.Errorf("the API server stored %s", text)
		case !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// What faults hold besides hosts, and need.
const (
	thePlane   = "the plane"
	theCluster = "the cluster"
	theSecret  = "the bootstrap Secret"
	// theAddress is that of the first cluster's control plane.
	theAddress = "the address"
	// theDeletion is the one that is held up.
	theDeletion = "the deletion"
)

func aHost(s *State) bool { return len(s.FreeHosts()) > 0 }

func aSecond(s *State) bool { return s.Second > 0 }

// takeSecond chooses the second Cluster, which is gone from then on.
func takeSecond(_ *rand.Rand, s *State) Arguments {
	number := s.Second
	s.Second = 0
	return Arguments{Value: number}
}

func nothing(*rand.Rand, *State) Arguments { return Arguments{} }

func pick(r *rand.Rand, _ *State) Arguments {
	return Arguments{Pick: r.IntN(1 << 10)}
}

func anyHost(r *rand.Rand, s *State) Arguments {
	free := s.FreeHosts()
	return Arguments{Host: free[r.IntN(len(free))]}
}

// scale is a fault that sets the replicas of the workers at an index of the topology.
func scale(name, workers string, index int, replicas func(*State) *int) fault {
	return fault{
		Kind: Kind{Name: name, Needs: thePlane, Draw: func(r *rand.Rand, s *State) Arguments {
			now := replicas(s)
			*now = r.IntN(max(0, *now+s.Spare()) + 1)
			return Arguments{Value: *now}
		}},
		apply: func(ctx context.Context, p *plane, s Step) error {
			return p.patch(ctx, clusterResource, "local", patch{"replace", fmt.Sprintf("/spec/topology/workers/%s/%d/replicas", workers, index), s.Value})
		},
	}
}

func removeMembers(ctx context.Context, p *plane, _ Step) error {
	names, err := p.names(ctx, hostMachineResource, poolMembers)
	for _, name := range names {
		err = errors.Join(err, p.remove(ctx, hostMachineResource, name))
	}
	return err
}

// onHost is a command of `slipway host`.
func onHost(command string) effect {
	return func(ctx context.Context, p *plane, s Step) error {
		_, err := p.run(ctx, "host", command, s.Host)
		return err
	}
}

// signalAgent does nothing on a host that is off.
func signalAgent(signal syscall.Signal) effect {
	return func(_ context.Context, p *plane, s Step) error {
		for _, pid := range p.ProcessesOn(s.Host, "slipway-agent") {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		return nil
	}
}

// kill ends a process, if there is one.
func kill(find func(*plane) int) effect {
	return func(_ context.Context, p *plane, _ Step) error {
		pid := find(p)
		if pid == 0 {
			return nil
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
}

func paused(yes bool) effect {
	return func(ctx context.Context, p *plane, _ Step) error {
		return p.patch(ctx, clusterResource, "local", patch{"add", "/spec/paused", yes})
	}
}

func second(number int) string { return "second-" + strconv.Itoa(number) }

// classes of the ClusterClass whose templates are changed.
var classes = []string{"machinePools", "machineDeployments"}

func templates(r *rand.Rand, s *State) Arguments {
	s.Made++
	return Arguments{Value: s.Made, Pick: r.IntN(len(classes))}
}

// rollOut gives the workers a bootstrap template that differs.
func rollOut(ctx context.Context, p *plane, s Step) error {
	from, err := p.client.Resource(configResource).Namespace(namespace).Get(ctx, "slipway-local-worker", metav1.GetOptions{})
	if err != nil {
		return err
	}
	to := &unstructured.Unstructured{Object: map[string]any{"spec": from.Object["spec"]}}
	to.SetGroupVersionKind(from.GroupVersionKind())
	to.SetName("chaos-" + strconv.Itoa(s.Value))
	file := map[string]any{"path": "/etc/chaos", "permissions": "0644", "content": strconv.Itoa(s.Value)}
	if err := unstructured.SetNestedSlice(to.Object, []any{file}, "spec", "template", "spec", "files"); err != nil {
		return err
	}
	if err := p.create(ctx, configResource, to); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return p.patch(ctx, classResource, "slipway-local", patch{"replace", "/spec/workers/" + classes[s.Pick] + "/0/bootstrap/templateRef/name", to.GetName()})
}

// removeSecret deletes the bootstrap data that the pool has now, and keeps it.
func removeSecret(ctx context.Context, p *plane, _ Step) error {
	pools, err := p.client.Resource(poolResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pools.Items) != 1 {
		return fmt.Errorf("there are %d MachinePools, want one", len(pools.Items))
	}
	name, _, err := unstructured.NestedString(pools.Items[0].Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
	if err != nil {
		return err
	}
	secret, err := p.client.Resource(secretResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	secret.SetResourceVersion("")
	secret.SetUID("")
	p.removed = secret
	return p.remove(ctx, secretResource, name)
}

func restoreSecret(ctx context.Context, p *plane, _ Step) error {
	return client.IgnoreAlreadyExists(p.create(ctx, secretResource, p.removed))
}

// kinds are what the planner sees of the faults. The one that is left out never fits.
func kinds(without string) []Kind {
	all := make([]Kind, 0, len(faults))
	for _, f := range faults {
		if f.Name == without {
			f.Fits = func(*State) bool { return false }
		}
		all = append(all, f.Kind)
	}
	return all
}

// begin is the state of the first cluster as it is created.
func begin() State {
	s := State{Pool: 1, Deployment: 1}
	for i := range hosts {
		s.Hosts = append(s.Hosts, "host-"+strconv.Itoa(i+1))
	}
	return s
}

func faultsIn(steps []Step) int {
	return len(slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Undo }))
}

// count tells how often each fault was injected.
func count(steps []Step) string {
	n := map[string]int{}
	for _, s := range steps {
		if !s.Undo {
			n[s.Name]++
		}
	}
	var parts []string
	for _, f := range faults {
		if n[f.Name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", f.Name, n[f.Name]))
		}
	}
	return strings.Join(parts, ", ")
}
