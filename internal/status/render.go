package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-dev/slipway/internal/text"
)

// Render writes s for a person; wide adds the columns that are long.
func Render(out io.Writer, s Status, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if p := s.Plane; p.PID == 0 && p.Ready {
		fmt.Fprintf(w, "MANAGEMENT CLUSTER\t%s\n", strings.TrimSpace(p.Context+" "+p.Server))
	} else {
		fmt.Fprintf(w, "PLANE\t%s\n", planeLine(p))
		if p.Ready && p.Crashes != nil {
			fmt.Fprintf(w, "  crashed\t%s\n", p.Crashes.Summary(time.Now()))
		}
		if p.Service != "" {
			fmt.Fprintf(w, "  service\t%s\n", p.Service)
		}
		if p.HostServer != "" {
			fmt.Fprintf(w, "  for other machines\t%s\n", strings.TrimSuffix(p.HostServer+": "+p.HostServerMessage, ": "))
		}
	}
	now := time.Now()
	renderClusters(w, s.Clusters, wide, now)
	renderHosts(w, s.Hosts, wide, now)
	return w.Flush()
}

func planeLine(p Plane) string {
	if p.Ready {
		return fmt.Sprintf("ready (pid %d, %s)", p.PID, p.Server)
	}
	return "not ready: " + p.Message
}

func renderClusters(w io.Writer, clusters []Cluster, wide bool, now time.Time) {
	for _, c := range clusters {
		fmt.Fprintf(w, "\nCLUSTER\tSTATE\tFOR\tCONTROL PLANE\tWORKERS\n%s/%s\t%s\t%s\t%s\t%s\n",
			c.Namespace, c.Name, c.State.Word, c.State.For(now), count(c.ControlPlane), pools(c.Pools))
		renderCause(w, c.State)
		for _, reason := range c.Waiting {
			fmt.Fprintf(w, "  waiting for\t%s\n", text.OneLine(reason))
		}
		if len(c.Nodes) > 0 {
			fmt.Fprint(w, "\n  NODE\tREADY\tVERSION", ifWide(wide, "\tPROVIDER ID"), "\n")
		}
		if c.NodesUnknown != "" {
			fmt.Fprintf(w, "  nodes unknown\t%s\n", c.NodesUnknown)
		}
		for _, n := range c.Nodes {
			fmt.Fprintf(w, "  %s\t%t\t%s%s\n", n.Name, n.Ready, n.Version, ifWide(wide, "\t"+n.ProviderID))
		}
	}
}

// renderCause says below a row why somebody must act, and what to do; nothing of any other state.
func renderCause(w io.Writer, s State) {
	if !s.Attention() {
		return
	}
	fmt.Fprintf(w, "  because\t%s\n", s.Cause)
	if s.Next != "" {
		fmt.Fprintf(w, "  next\t%s\n", s.Next)
	}
}

func renderHosts(w io.Writer, hosts []Host, wide bool, now time.Time) {
	if len(hosts) == 0 {
		return
	}
	fmt.Fprint(w, "\nHOST\tSTATE\tFOR\tCLAIMED BY", ifWide(wide, "\tADDRESSES\tBECAUSE\tNEXT"), "\n")
	for _, h := range hosts {
		fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s%s\n", h.Namespace, h.Name, h.State.Word, h.State.For(now), h.ClaimedBy,
			ifWide(wide, "\t"+strings.Join(h.Addresses, ",")+"\t"+h.State.Cause+"\t"+h.State.Next))
	}
}

func count(r Replicas) string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

func pools(pools []Pool) string {
	out := make([]string, 0, len(pools))
	for _, p := range pools {
		out = append(out, p.Name+" "+count(p.Replicas))
	}
	return strings.Join(out, ", ")
}

func ifWide(wide bool, s string) string {
	if wide {
		return s
	}
	return ""
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
