package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// approvedHost is what somebody who approves a host wants to compare with the machine.
type approvedHost struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	Approval  infrav1.HostApproval `json:"approval"`
	HostID    string               `json:"hostID,omitempty"`
	MachineID string               `json:"machineID,omitempty"`
}

func hostApproveCommand(p *Program) *cobra.Command {
	f, output := &managementFlags{program: p}, ""
	command := &cobra.Command{
		Use:   "approve HOST...",
		Short: "Approve hosts, so that machines may claim them",
		Long: `Approve hosts that the HostApprovalPolicy of their namespace requires approval for. From
then on a machine may claim them, and the agent gets bootstrap data: verify first that
the host is yours. It takes the verbs get, patch and approve on hosts.`,
		Example: "  slipway host approve rack1-a rack1-b -n prod",
		Args:    cobra.MinimumNArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, names []string) error {
			var approved []approvedHost
			var failed []error
			for _, name := range names {
				h, err := approveHost(cmd, s, name)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				approved = append(approved, approvedHost{h.Namespace, h.Name, h.Spec.Approval, h.Spec.HostID, h.Status.Inventory.MachineID})
			}
			if len(approved) > 0 {
				failed = append(failed, approvalResult(approved).write(cmd.OutOrStdout(), output))
			}
			return errors.Join(failed...)
		}),
		ValidArgsFunction: f.completeUnapproved(),
	}
	f.bind(command, "of the hosts")
	outputFlag(command, &output, listFormats...)
	return command
}

// approveHost approves the machine that has the name now, not one that replaces it
// meanwhile, nor against somebody who decides meanwhile.
func approveHost(cmd *cobra.Command, s *session, name string) (*infrav1.Host, error) {
	h := &infrav1.Host{}
	if err := s.Get(cmd.Context(), s.key(name), h); apierrors.IsNotFound(err) {
		return nil, noHost(cmd, s, name)
	} else if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	approved, err := change.Approve(cmd.Context(), s, s.key(name), change.Of(h))
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return approved, nil
}

func noHost(cmd *cobra.Command, s *session, name string) error {
	waiting, err := unapproved(cmd, s)
	if err != nil || len(waiting) == 0 {
		return fmt.Errorf("there is no host %s in namespace %s; `%s host list` shows the hosts", name, s.namespace, cmd.Root().CommandPath())
	}
	return fmt.Errorf("there is no host %s in namespace %s; these are not approved: %s", name, s.namespace, strings.Join(waiting, ", "))
}

// unapproved are the hosts of the namespace that are not approved.
func unapproved(cmd *cobra.Command, s *session) ([]string, error) {
	list := &infrav1.HostList{}
	err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
	return namesOf(list.Items, func(h *infrav1.Host) string {
		if hosts.Approved(h) {
			return ""
		}
		return h.Name
	}), err
}

func approvalResult(approved []approvedHost) result {
	shown := result{object: approved, table: func(out *display.Page, _ bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAMESPACE\tNAME\tAPPROVAL\tHOST ID\tMACHINE ID")
		for _, h := range approved {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Namespace, h.Name, h.Approval,
				cmp.Or(h.HostID, "not enrolled yet"), cmp.Or(h.MachineID, "not reported yet"))
		}
		return w.Flush()
	}}
	for _, h := range approved {
		shown.names = append(shown.names, hostName(h.Name))
	}
	return shown
}
