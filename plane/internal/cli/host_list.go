package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/status"
)

// hostRow joins what is seen of a local host from outside with what its agent
// reports.
type hostRow struct {
	Name      string   `json:"name"`
	State     string   `json:"state,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	ClaimedBy string   `json:"claimedBy"`
	Addresses []string `json:"addresses"`
	PID       int      `json:"pid,omitempty"`
	Message   string   `json:"message,omitempty"`
}

func hostListCommand(g *global) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the hosts; works for local hosts when the plane is down, too",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inst, err := g.open()
			if err != nil {
				return err
			}
			m, err := manager(inst)
			if err != nil {
				return err
			}
			local, err := m.List(cmd.Context())
			if err != nil {
				return err
			}
			known, err := planeclient.Status(cmd.Context(), inst)
			if err != nil {
				return err
			}
			rows := hostRows(local, known.Hosts)
			if output == outputJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			if !known.Plane.Ready {
				fmt.Fprintln(cmd.ErrOrStderr(), "The plane is not ready, phases are not known:", known.Plane.Message)
			}
			return printHosts(cmd.OutOrStdout(), rows, output == outputWide)
		},
	}
	outputFlag(command, &output, outputJSON, outputWide)
	return command
}

func hostRows(local []localhost.Host, known []status.Host) []hostRow {
	rows := make([]hostRow, 0, len(known))
	index := map[string]int{}
	for _, h := range local {
		index[h.Name] = len(rows)
		rows = append(rows, hostRow{Name: h.Name, State: string(h.State), PID: h.PID, Addresses: []string{h.IP.String()}})
	}
	for _, h := range known {
		i, ok := index[h.Name]
		if !ok {
			i, rows = len(rows), append(rows, hostRow{Name: h.Name, Addresses: h.Addresses})
		}
		rows[i].Phase, rows[i].ClaimedBy, rows[i].Message = h.Phase, h.ClaimedBy, h.Message
	}
	return rows
}

func printHosts(out io.Writer, rows []hostRow, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	header, format := "NAME\tSTATE\tPHASE\tCLAIMED BY\tADDRESS", "%s\t%s\t%s\t%s\t%s"
	if wide {
		header += "\tPID\tMESSAGE"
	}
	fmt.Fprintln(w, header)
	for _, r := range rows {
		address := ""
		if len(r.Addresses) > 0 {
			address = r.Addresses[0]
		}
		fmt.Fprintf(w, format, r.Name, r.State, r.Phase, r.ClaimedBy, address)
		if wide {
			fmt.Fprintf(w, "\t%d\t%s", r.PID, r.Message)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
