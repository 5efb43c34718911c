package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
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
	Sandbox   string   `json:"sandbox,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	ClaimedBy string   `json:"claimedBy"`
	Addresses []string `json:"addresses"`
	PID       int      `json:"pid,omitempty"`
	// Architecture and Machine are what the agent told of the hardware.
	Architecture string `json:"architecture,omitempty"`
	Machine      string `json:"machine,omitempty"`
	// Versions of Kubernetes that the host has.
	Versions []status.Version `json:"versions,omitempty"`
}

func hostListCommand(p *Program) *cobra.Command {
	var shown listFlags
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the hosts",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, scope, err := f.target(cmd)
			if err != nil {
				return err
			}
			known, err := cluster.Hosts(cmd.Context(), scope)
			if err != nil {
				return cluster.Explain(err)
			}
			var local []management.LocalHost
			if cluster.Plane != nil {
				if local, err = cluster.Plane.LocalHosts(cmd.Context()); err != nil {
					return err
				}
			}
			if !known.Plane.Ready {
				fmt.Fprintln(cmd.ErrOrStderr(), "The plane is not ready, states are not known:", known.Plane.Message)
			}
			hosts := hostsList(hostRows(local, known.Hosts, scope.Narrow()))
			hosts.empty = f.none("hosts")
			return hosts.write(cmd, shown)
		},
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
			Architecture: h.Architecture, Machine: h.Machine, Versions: h.Versions}
		if i := slices.IndexFunc(local, func(l management.LocalHost) bool { return l.Is(&h) }); i >= 0 {
			row.Sandbox, row.PID, row.Addresses = local[i].State, local[i].PID, []string{local[i].Address}
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

func hostsList(rows []hostRow) list[hostRow] {
	return list[hostRow]{rows: rows, name: func(r *hostRow) string { return hostName(r.Name) }, table: printHosts}
}

func printHosts(out io.Writer, rows []hostRow, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	header, format := "NAMESPACE\tNAME\tSTATE\tFOR\tCLAIMED BY\tADDRESS", "%s\t%s\t%s\t%s\t%s\t%s"
	local := slices.ContainsFunc(rows, func(r hostRow) bool { return r.Sandbox != "" })
	if local {
		header += "\tSANDBOX"
	}
	if wide {
		header += "\tPID\tARCH\tMACHINE\tKUBERNETES\tBECAUSE\tNEXT"
	}
	fmt.Fprintln(w, header)
	now := time.Now()
	for _, r := range rows {
		address := ""
		if len(r.Addresses) > 0 {
			address = r.Addresses[0]
		}
		state := status.State{Word: "Unknown"}
		if r.State != nil {
			state = *r.State
		}
		fmt.Fprintf(w, format, r.Namespace, r.Name, state.Word, state.For(now), r.ClaimedBy, address)
		if local {
			fmt.Fprintf(w, "\t%s", r.Sandbox)
		}
		if wide {
			versions := make([]string, len(r.Versions))
			for i, v := range r.Versions {
				versions[i] = v.String()
			}
			fmt.Fprintf(w, "\t%d\t%s\t%s\t%s\t%s\t%s", r.PID, r.Architecture, r.Machine, strings.Join(versions, ", "), state.Cause, state.Next)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
