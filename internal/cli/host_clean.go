package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/text"
)

// requestFlags are those of the commands that request something of hosts.
type requestFlags struct {
	managementFlags
	confirmFlags
	timeout time.Duration
	output  string
	// reason why it is requested.
	reason string
	// cluster and machine are those of a node that is adopted.
	cluster, machine string
}

// requestedHost is what became of a request.
type requestedHost struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Phase     infrav1.HostPhase `json:"phase"`
	// Done is false for a request that is carried out later.
	Done    bool   `json:"done"`
	Message string `json:"message,omitempty"`
}

// hostRequest makes a request of a host, and says of the Host as it is later whether that was carried out. An error
// of done ends the wait.
type hostRequest struct {
	// name of the request, as its event has it.
	name string
	give func(ctx context.Context, s *session, h *infrav1.Host) error
	done func(h *infrav1.Host) (bool, error)
	// waits is what a request waits for that was not carried out in time.
	waits string
	// loses says what is lost with it, which is confirmed before; empty for nothing.
	loses string
	// oneByOne has hosts wait for the one before them, and ends with one that was not carried out.
	oneByOne bool
}

func (f *requestFlags) command(use, short, long, example string, of func() hostRequest) *cobra.Command {
	verb, _, _ := strings.Cut(use, " ")
	title := strings.ToUpper(verb[:1]) + strings.ReplaceAll(verb[1:], "-", " ")
	command := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cobra.MinimumNArgs(1), ValidArgsFunction: f.completeHosts(),
		RunE: f.on(func(cmd *cobra.Command, s *session, names []string) error {
			if f.timeout <= 0 {
				return errors.New("--timeout: want a positive duration, for example 2m")
			}
			if loses := of().loses; loses != "" {
				if err := f.confirm(cmd, s, title+" "+strings.Join(names, ", "), loses); err != nil {
					return err
				}
			}
			var requested []requestedHost
			var failed []error
			for i, name := range names {
				request := of()
				request.name = title
				h, err := f.carryOut(cmd.Context(), s, name, request)
				if err != nil {
					failed = append(failed, fmt.Errorf("host %s: %w", name, err))
				} else {
					requested = append(requested, *h)
				}
				if left := names[i+1:]; request.oneByOne && (err != nil || !h.Done) && len(left) > 0 {
					failed = append(failed, fmt.Errorf("not requested of %s, as host %s does not run again yet", strings.Join(left, ", "), name))
					break
				}
			}
			if len(requested) > 0 {
				failed = append(failed, requestResult(requested).write(cmd.OutOrStdout(), f.output))
			}
			return errors.Join(failed...)
		}),
	}
	f.managementFlags.bind(command, "of the hosts")
	if of().loses != "" {
		f.confirmFlags.bind(command)
	}
	command.Flags().StringVar(&f.reason, "reason", "", "why, for others who look at the host; its events show it")
	command.Flags().DurationVar(&f.timeout, "timeout", cmp.Or(f.timeout, 2*time.Minute), "how long to wait for the host; the request stays recorded after that")
	outputFlag(command, &f.output, listFormats...)
	return command
}

// requestPoll is the time between two looks at the Host.
const requestPoll = time.Second

// carryOut makes a request, and waits until it is carried out or refused.
func (f *requestFlags) carryOut(ctx context.Context, s *session, name string, o hostRequest) (*requestedHost, error) {
	h := &infrav1.Host{}
	if err := change.Live(ctx, s, s.key(name), h, func() error { return o.give(ctx, s, h) }); err != nil {
		return nil, err
	}
	// The API server's audit log has it; an event is where people look.
	_ = change.Record(ctx, s, h, o.name, f.reason)
	done := false
	// A question that is under way at the end of the wait is no failure: it has the context of the command.
	err := wait.PollUntilContextTimeout(ctx, requestPoll, f.timeout, true, func(context.Context) (bool, error) {
		if err := s.Get(ctx, s.key(name), h); err != nil {
			return false, err
		}
		var err error
		done, err = o.done(h)
		return done || err == nil && hosts.Disconnected(h), err
	})
	if err != nil && !wait.Interrupted(err) {
		return nil, err
	}
	state := hosts.StateOf(h)
	result := &requestedHost{Namespace: h.Namespace, Name: h.Name, Phase: state.Phase, Done: done, Message: state.Message}
	switch {
	case done:
	case hosts.Disconnected(h):
		result.Message = "the agent is not connected; the request is recorded, and is carried out when the agent returns"
	default:
		result.Message = "the request is recorded; " + o.waits
	}
	return result, nil
}

func hostResetCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("reset HOST...", "Reset hosts that no machine has",
		`Have the agents of hosts reset them, and wait for the proof that they are clean: a host that
is quarantined, that has a node or remains of one on it which nobody claims here any more, or
whose machine is gone. What runs on it ends, and what a claim changed is undone as far as the agent
has it on record; the rest is named. A host that a machine has is refused: delete its Machine.

A reset that failed is tried again by itself, more and more slowly; this tries again now. The
order stands while the agent is away. It takes the verbs get, update and order on hosts, and get on
hostmachines.`,
		"  slipway host reset rack1-a -n prod", func() hostRequest {
			id := rand.String(10)
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					machine, err := change.MachineOf(ctx, s, h)
					if err != nil {
						return err
					}
					if err := hosts.RequestManualReset(h, machine, id); err != nil {
						return err
					}
					return s.Update(ctx, h)
				},
				done: func(h *infrav1.Host) (bool, error) {
					if !hosts.Releasing(h) {
						return true, nil
					}
					if h.Spec.Desired.OperationID != "reset-"+id {
						return false, errors.New("another request replaced this one")
					}
					if op := hosts.Observed(h); op != nil && op.State == infrav1.OperationFailed {
						return false, errors.New(hosts.StateOf(h).Message)
					}
					return false, nil
				},
				waits: "the agent resets the host",
				loses: "What runs on them ends, and their data of the last claim is deleted",
			}
		})
}

func hostClearCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("clear-quarantine HOST...", "Confirm that quarantined hosts are clean",
		`Confirm that hosts are clean which could not prove it: look at what their messages name,
and clean it by hand first. From then on they may be claimed. What an agent still finds of a node,
such as a kubelet that runs, keeps them quarantined until it is gone.

The confirmation is for the claim that a host had last. On a host that is being reset it waits for the
end of that. It takes the verbs get and patch on hosts.`,
		"  slipway host clear-quarantine rack1-a -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return change.ClearQuarantine(ctx, s, h)
				},
				done: func(h *infrav1.Host) (bool, error) {
					if _, waits := h.Annotations[infrav1.ClearQuarantineAnnotation]; waits {
						return false, nil
					}
					if state := hosts.StateOf(h); state.Quarantined() && len(h.Status.Residue) == 0 {
						return false, errors.New(state.Message)
					}
					return true, nil
				},
				waits: "it is taken once the host is known to be quarantined; does slipway-manager run?",
			}
		})
}

func hostAdoptCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	command := f.command("adopt HOST...", "Give hosts that are nodes back to their machines, or have their nodes adopted",
		`Take over hosts that are nodes and that nobody claims: nothing on them is changed, and their pods
run on. A host that is the node of a claim by its agent's journal goes back to the HostMachine of
that claim, as after its Host was deleted or the management cluster restored. If that is gone, too,
--cluster has a Machine and a HostMachine made for the node of a worker, once its Node is found in the
cluster. Any other worker node, which kubeadm joined to a cluster of this management cluster, is
adopted with --cluster by a Machine and a HostMachine that are made for it.

It takes the verbs get, update and order on hosts and list on hostmachines; with --cluster, get on
clusters, create on machines and hostmachines, and for the node of a claim get on the cluster's
kubeconfig Secret.`,
		"  slipway host adopt rack1-a -n prod\n  slipway host adopt rack1-b -n prod --cluster web", func() hostRequest {
			return hostRequest{
				give: f.adopt,
				done: func(h *infrav1.Host) (bool, error) {
					if hosts.AdoptionRefused(h) {
						return false, errors.New(hosts.StateOf(h).Message)
					}
					return h.Spec.Claim != nil && !hosts.Adopting(h), nil
				},
				waits: "slipway-manager and the agent adopt the node",
			}
		})
	command.Flags().StringVar(&f.cluster, "cluster", "", "cluster that the node is of, for a node without a HostMachine")
	command.Flags().StringVar(&f.machine, "machine", "", "name of the Machine that is made; that of the host when empty")
	_ = command.RegisterFlagCompletionFunc("cluster", f.completeClusters())
	return command
}

func (f *requestFlags) adopt(ctx context.Context, s *session, h *infrav1.Host) error {
	machines := &infrav1.HostMachineList{}
	record := ptr.Deref(h.Status.Record, infrav1.HostRecord{})
	if record.State == infrav1.HostRecordNode {
		if err := s.List(ctx, machines, client.InNamespace(s.namespace)); err != nil {
			return err
		}
	}
	at := slices.IndexFunc(machines.Items, func(m infrav1.HostMachine) bool { return record.ClaimID != "" && m.Spec.ClaimID == record.ClaimID })
	switch {
	case at >= 0:
		return f.giveBack(ctx, s, h, &machines.Items[at])
	case record.State == infrav1.HostRecordNode && f.cluster == "":
		return fmt.Errorf("no HostMachine of namespace %s is of claim %s, whose node the host is: for the node of a worker, --cluster has one made; `slipway host reset %s -n %s` resets the host",
			s.namespace, record.ClaimID, h.Name, s.namespace)
	case record.State == infrav1.HostRecordNode:
		return f.makeAgain(ctx, s, h, record.ClaimID)
	case h.Spec.Claim != nil && ptr.Deref(h.Spec.Claim.Adopt, false):
		return nil
	case f.cluster == "":
		return errors.New("the agent has no node of a claim on record; --cluster says which cluster's node is adopted")
	}
	if state := hosts.Unadoptable(h, !hosts.Disconnected(h)); state != (hosts.State{}) {
		return errors.New(state.Message)
	}
	cluster := &clusterv1.Cluster{}
	if err := s.Get(ctx, s.key(f.cluster), cluster); err != nil {
		return err
	}
	hostMachine := f.hostMachine(h)
	hostMachine.Spec.Adopt.HostName = h.Name
	for _, object := range []client.Object{hostMachine, machineFor(hostMachine, cluster.Name)} {
		if err := s.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// giveBack claims a host for the HostMachine whose node it is. One that was made for that, with --cluster, gets its
// Machine last: from then on the manager looks for the claim.
func (f *requestFlags) giveBack(ctx context.Context, s *session, h *infrav1.Host, machine *infrav1.HostMachine) error {
	cluster := machine.Labels[clusterv1.ClusterNameLabel]
	if err := hosts.GiveBack(h, machine, cluster); err != nil {
		return err
	}
	if err := s.Update(ctx, h); err != nil || f.cluster == "" || len(machine.OwnerReferences) > 0 {
		return err
	}
	return client.IgnoreAlreadyExists(s.Create(ctx, machineFor(machine, cluster)))
}

// makeAgain makes the HostMachine of a claim that is gone, and gives it the host: the worker's Node keeps its provider ID, by
// which it is found in its cluster.
func (f *requestFlags) makeAgain(ctx context.Context, s *session, h *infrav1.Host, claimID string) error {
	kubeconfig, err := s.cluster.WorkloadKubeconfig(ctx, s, s.key(f.cluster))
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data)
	if err != nil {
		return err
	}
	config.Timeout = workloadTimeout
	workload, err := management.NewClient(config)
	if err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := workload.List(ctx, nodes); err != nil {
		return fmt.Errorf("look for the node in Cluster %s: %w", f.cluster, err)
	}
	providerID := infrav1.ProviderID(h.Namespace, h.Name, claimID)
	at := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.ProviderID == providerID })
	if at < 0 {
		return fmt.Errorf("no Node of Cluster %s has the provider ID %s; `slipway host reset %s -n %s` resets the host", f.cluster, providerID, h.Name, s.namespace)
	}
	if _, of := nodes.Items[at].Labels[controlPlaneLabel]; of {
		return fmt.Errorf("node %s is of the control plane, and only workers are given a new Machine; `slipway host reset %s -n %s` resets the host", nodes.Items[at].Name, h.Name, s.namespace)
	}
	machine := f.hostMachine(h)
	machine.Spec.ClaimID, machine.Spec.ProviderID = claimID, providerID
	if err := s.Create(ctx, machine); err != nil {
		return err
	}
	return f.giveBack(ctx, s, h, machine)
}

// workloadTimeout bounds a request to the cluster whose node a host is.
const workloadTimeout = 30 * time.Second

// controlPlaneLabel is kubeadm's, of Nodes.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// hostMachine is the one for a host whose node is adopted.
func (f *requestFlags) hostMachine(h *infrav1.Host) *infrav1.HostMachine {
	return &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.Namespace, Name: cmp.Or(f.machine, h.Name), Labels: map[string]string{clusterv1.ClusterNameLabel: f.cluster},
	}}
}

// machineFor is the Machine of a HostMachine, which bootstraps nothing.
func machineFor(of *infrav1.HostMachine, cluster string) *clusterv1.Machine {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, Labels: of.Labels}}
	machine.Spec.ClusterName = cluster
	machine.Spec.Bootstrap.DataSecretName = ptr.To("")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: of.Name}
	return machine
}

func requestResult(requested []requestedHost) result {
	shown := result{object: requested, table: func(out *display.Page, _ bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAMESPACE\tNAME\tPHASE\tMESSAGE")
		for _, h := range requested {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Namespace, h.Name, h.Phase, text.OneLine(h.Message))
		}
		return w.Flush()
	}}
	for _, h := range requested {
		shown.names = append(shown.names, hostName(h.Name))
	}
	return shown
}
