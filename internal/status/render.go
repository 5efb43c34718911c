package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/text"
)

// Render writes s for a person; wide adds the columns that are long.
func Render(page *display.Page, s Status, wide bool) {
	page.Table(display.Table{Rows: planeRows(s.Plane)})
	now := time.Now()
	for i := range s.Clusters {
		renderCluster(page, &s.Clusters[i], wide, now)
	}
	renderHosts(page, s.Hosts, wide, now)
}

func planeRows(p Plane) []display.Row {
	row := func(name, text string, role display.Role) display.Row {
		return display.Row{Cells: []display.Cell{{Text: name}, {Text: text, Role: role}}}
	}
	if p.PID == 0 && p.Ready {
		return []display.Row{row("MANAGEMENT CLUSTER", strings.TrimSpace(p.Context+" "+p.Server), "")}
	}
	rows := []display.Row{row("PLANE", "not ready: "+p.Message, Bad)}
	if p.Ready {
		rows = []display.Row{row("PLANE", fmt.Sprintf("ready (pid %d, %s)", p.PID, p.Server), OK)}
	}
	if p.Ready && p.Crashes != nil {
		rows = append(rows, row("  crashed", p.Crashes.Summary(time.Now()), Wait))
	}
	if p.Service != "" {
		rows = append(rows, row("  service", p.Service, ""))
	}
	if p.HostServer != "" {
		rows = append(rows, row("  for other machines", strings.TrimSuffix(p.HostServer+": "+p.HostServerMessage, ": "), ""))
	}
	return rows
}

func renderCluster(page *display.Page, c *Cluster, wide bool, now time.Time) {
	row := display.Row{Cells: slices.Concat(display.Texts(c.Namespace+"/"+c.Name), c.State.Cells(now), display.Texts(count(c.ControlPlane), pools(c.Pools)))}
	if c.State.Attention() || c.State.Next != "" {
		row.Notes = append(row.Notes, [2]string{"  because", c.State.Cause})
		if c.State.Next != "" {
			row.Notes = append(row.Notes, [2]string{"  next", c.State.Next})
		}
	}
	for _, reason := range c.Waiting {
		row.Notes = append(row.Notes, [2]string{"  waiting for", text.OneLine(reason)})
	}
	fmt.Fprintln(page)
	page.Table(display.Table{Columns: display.Columns("CLUSTER", "STATE", "FOR/1", "CONTROL PLANE/2", "WORKERS/3"), Rows: []display.Row{row}})
	if len(c.Nodes) > 0 {
		fmt.Fprintln(page)
	}
	if c.NodesUnknown != "" {
		page.Paragraph("  nodes unknown  ", c.NodesUnknown)
	}
	if len(c.Nodes) > 0 {
		page.Table(nodesTable(c.Nodes, wide))
	}
}

func nodesTable(nodes []Node, wide bool) display.Table {
	t := display.Table{Indent: "  ", Columns: display.Columns("NODE", "READY", "VERSION/1")}
	if wide {
		t.Columns = append(t.Columns, display.Column{Name: "PROVIDER ID"})
	}
	for _, n := range nodes {
		ready := display.Cell{Text: strconv.FormatBool(n.Ready), Role: OK}
		if !n.Ready {
			ready.Role = Bad
		}
		cells := []display.Cell{{Text: n.Name}, ready, {Text: n.Version}}
		if wide {
			cells = append(cells, display.Cell{Text: n.ProviderID})
		}
		t.Rows = append(t.Rows, display.Row{Cells: cells})
	}
	return t
}

func renderHosts(page *display.Page, hosts []Host, wide bool, now time.Time) {
	if len(hosts) == 0 {
		return
	}
	t := display.Table{Columns: display.Columns("HOST", "STATE", "FOR/1", "CLUSTER/2", "MACHINE/3")}
	if wide {
		t.Columns = append(t.Columns, display.Columns("ADDRESSES", "BECAUSE", "NEXT")...)
	}
	for _, h := range hosts {
		cluster, machine, _ := strings.Cut(h.ClaimedBy, "/")
		cells := slices.Concat(display.Texts(h.Namespace+"/"+h.Name), h.State.Cells(now), display.Texts(cluster, machine))
		if wide {
			cells = append(cells, display.Texts(strings.Join(h.Addresses, ","), h.State.Cause, h.State.Next)...)
		}
		t.Rows = append(t.Rows, display.Row{Cells: cells})
	}
	fmt.Fprintln(page)
	page.Table(t)
}

func count(r Replicas) string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

func pools(pools []Pool) string {
	out := make([]string, 0, len(pools))
	for _, p := range pools {
		out = append(out, p.Name+" "+count(p.Replicas))
	}
	return strings.Join(out, ", ")
}

// NaturalCompare orders names as people read them: db-2 before db-10, and both before web. Runs
// of digits are compared by their value, all else by its bytes.
func NaturalCompare(a, b string) int {
	restA, restB := a, b
	for restA != "" && restB != "" {
		digitsA, digitsB := digits(restA), digits(restB)
		if digitsA == "" || digitsB == "" {
			if restA[0] != restB[0] {
				return cmp.Compare(restA[0], restB[0])
			}
			restA, restB = restA[1:], restB[1:]
			continue
		}
		if order := compareNumbers(digitsA, digitsB); order != 0 {
			return order
		}
		restA, restB = restA[len(digitsA):], restB[len(digitsB):]
	}
	// 07 and 7 are equal so far.
	return cmp.Or(cmp.Compare(len(restA), len(restB)), cmp.Compare(a, b))
}

// digits returns the digits that a name begins with.
func digits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
