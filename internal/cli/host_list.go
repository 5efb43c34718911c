package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

// hostRow joins what is seen of a local host from outside with what its agent
// reports.
type hostRow struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// State is how the host is; nil of a local one that no Host is known of.
	State *status.State `json:"state,omitempty"`
	// Sandbox is how a local host is, seen from outside.
	Sandbox   string `json:"sandbox,omitempty"`
	Phase     string `json:"phase,omitempty"`
	ClaimedBy string `json:"claimedBy"`
	// Addresses that the host reports; of a local one that has not reported, what its plane gave it.
	Addresses []string `json:"addresses"`
	// FailureDomain is the zone that the host stands in, such as a rack.
	FailureDomain string `json:"failureDomain,omitempty"`
	PID           int    `json:"pid,omitempty"`
	// Architecture and Machine are what the agent told of the hardware.
	Architecture string `json:"architecture,omitempty"`
	Machine      string `json:"machine,omitempty"`
	// Cgroups is V1 or V2.
	Cgroups string `json:"cgroups,omitempty"`
	// RebootRequiredSince is when the operating system first asked for a reboot.
	RebootRequiredSince *time.Time `json:"rebootRequiredSince,omitempty"`
	// Versions of Kubernetes that the host has.
	Versions []status.Version `json:"versions,omitempty"`
	// Created is when the Host was, and LastSeen when its agent renewed its heartbeat, of a wide table. They are no part of
	// what -w compares.
	Created  time.Time `json:"-"`
	LastSeen time.Time `json:"-"`
}

func hostListCommand(p *Program) *cobra.Command {
	var shown listFlags
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:     "list [HOST...]",
		Aliases: []string{"ls", "get"},
		Short:   "List the hosts",
		RunE: func(cmd *cobra.Command, names []string) error {
			cluster, scope, err := f.target(cmd)
			if err != nil {
				return err
			}
			said := ""
			return showList(cmd, shown, func(ctx context.Context) (list[hostRow], error) {
				known, err := cluster.Hosts(ctx, scope)
				if err != nil {
					return list[hostRow]{}, cluster.Explain(err)
				}
				var local []management.LocalHost
				if cluster.Plane != nil {
					if local, err = cluster.Plane.LocalHosts(ctx); err != nil {
						return list[hostRow]{}, err
					}
				}
				if !known.Plane.Ready && said != known.Plane.Message {
					said = known.Plane.Message
					fmt.Fprintln(cmd.ErrOrStderr(), "The plane is not ready, states are not known:", said)
				}
				rows, err := namedHosts(hostRows(local, known.Hosts, scope.Narrow()), names)
				if shown.output == outputWide {
					addHeartbeats(ctx, cluster, scope.Namespace, rows)
				}
				hosts := hostsList(rows)
				hosts.empty = f.none("hosts")
				return hosts, err
			})
		},
		ValidArgsFunction: f.completeHosts(),
	}
	if p.Local != nil {
		command.Short = "List the hosts; works for local hosts when the plane is down, too"
	}
	f.bind(command)
	shown.bind(command)
	return command
}

// hostRows joins both views. Local hosts whose Host is not among the
// known ones are left out when only some were asked for.
func hostRows(local []management.LocalHost, known []status.Host, narrow bool) []hostRow {
	rows := make([]hostRow, 0, len(known))
	joined := make([]bool, len(local))
	for _, h := range known {
		row := hostRow{Namespace: h.Namespace, Name: h.Name, Addresses: h.Addresses, Phase: h.Phase, State: &h.State, ClaimedBy: h.ClaimedBy,
			Architecture: h.Architecture, Machine: h.Machine, Cgroups: h.Cgroups, Versions: h.Versions, FailureDomain: h.FailureDomain, Created: h.Created, RebootRequiredSince: h.RebootRequiredSince}
		if i := slices.IndexFunc(local, func(l management.LocalHost) bool { return l.Is(&h) }); i >= 0 {
			row.Sandbox, row.PID = local[i].State, local[i].PID
			if len(row.Addresses) == 0 {
				row.Addresses = []string{local[i].Address}
			}
			row.Versions = slices.Clone(row.Versions)
			for v := range row.Versions {
				if row.Versions[v].Origin == status.OriginPackages { // nobody but the node bundle brings others
					row.Versions[v].Origin = string(infrav1.SoftwareOriginOwnBuild)
				}
			}
			joined[i] = true
		}
		rows = append(rows, row)
	}
	for i, l := range local {
		if !joined[i] && !narrow {
			rows = append(rows, hostRow{Name: l.Name, Sandbox: l.State, PID: l.PID, Addresses: []string{l.Address}})
		}
	}
	return rows
}

// addHeartbeats adds when agents were last seen, as far as the user may list Leases.
func addHeartbeats(ctx context.Context, cluster *management.Cluster, namespace string, rows []hostRow) {
	c, err := cluster.Client()
	if err != nil {
		return
	}
	leases := &coordinationv1.LeaseList{}
	if err := c.List(ctx, leases, client.InNamespace(namespace)); err != nil {
		return
	}
	seen := map[client.ObjectKey]time.Time{}
	for i := range leases.Items {
		if renewed := leases.Items[i].Spec.RenewTime; renewed != nil {
			seen[client.ObjectKeyFromObject(&leases.Items[i])] = renewed.Time
		}
	}
	for i := range rows {
		rows[i].LastSeen = seen[client.ObjectKey{Namespace: rows[i].Namespace, Name: rows[i].Name}]
	}
}

// ageOf is how long ago something was; empty for never.
func ageOf(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(t)))
}

// namedHosts are the rows of some hosts, in the order of their names; all without names.
func namedHosts(rows []hostRow, names []string) ([]hostRow, error) {
	if len(names) == 0 {
		return rows, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r hostRow) bool { return r.Name == name }) {
			return nil, fmt.Errorf("there is no host %s among the %d that are listed; -n names another namespace", name, len(rows))
		}
	}
	return slices.DeleteFunc(rows, func(r hostRow) bool { return !slices.Contains(names, r.Name) }), nil
}

func hostsList(rows []hostRow) list[hostRow] {
	return list[hostRow]{rows: rows, name: func(r *hostRow) string { return hostName(r.Name) }, table: printHosts}
}

// cgroupsOf says what a version of control groups is good for.
func cgroupsOf(version string) string {
	if version == string(infrav1.CgroupV1) {
		return "V1, which kubelets refuse from " + hosts.WithoutCgroupV1 + " on"
	}
	return version
}

func printHosts(page *display.Page, rows []hostRow, wide bool) error {
	t := display.Table{Columns: display.Columns("NAMESPACE/3", "NAME", "STATE", "FOR/1", "CLUSTER/4", "MACHINE/5", "ADDRESS/2")}
	local := slices.ContainsFunc(rows, func(r hostRow) bool { return r.Sandbox != "" })
	if local {
		t.Columns = append(t.Columns, display.Columns("SANDBOX/6")...)
	}
	if wide {
		t.Columns = append(t.Columns, display.Columns("RACK", "AGE", "LAST SEEN", "PID", "ARCH", "HARDWARE", "CGROUPS", "KUBERNETES", "REBOOT", "BECAUSE", "NEXT")...)
	}
	now := time.Now()
	for _, r := range rows {
		address := ""
		if len(r.Addresses) > 0 {
			address = r.Addresses[0]
		}
		state := status.State{Role: display.Off, Word: "Unknown"}
		if r.State != nil {
			state = *r.State
		}
		cluster, machine, _ := strings.Cut(r.ClaimedBy, "/")
		cells := slices.Concat(display.Texts(r.Namespace, r.Name), state.Cells(now), display.Texts(cluster, machine, address))
		if local {
			cells = append(cells, display.Cell{Text: r.Sandbox})
		}
		if wide {
			versions := make([]string, len(r.Versions))
			for i, v := range r.Versions {
				versions[i] = v.String()
			}
			reboot := ""
			if r.RebootRequiredSince != nil {
				reboot = "required for " + duration.HumanDuration(max(0, now.Sub(*r.RebootRequiredSince)))
			}
			cells = append(cells, display.Texts(r.FailureDomain, ageOf(r.Created, now), ageOf(r.LastSeen, now), strconv.Itoa(r.PID), r.Architecture, r.Machine, cgroupsOf(r.Cgroups), strings.Join(versions, ", "), reboot, state.Cause, state.Next)...)
		}
		t.Rows = append(t.Rows, display.Row{Cells: cells})
	}
	page.Table(t)
	return nil
}
