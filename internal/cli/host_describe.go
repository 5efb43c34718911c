package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// described is a host with what is wrong with it. Its JSON is an API.
type described struct {
	status.Host
	// Node on it and the version of its kubelet; empty while it is free.
	Node              string `json:"node,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Findings of doctor about it.
	Findings   []doctor.Finding           `json:"findings"`
	Operation  *infrav1.ObservedOperation `json:"operation,omitempty"`
	Conditions []metav1.Condition         `json:"conditions"`
	Events     []eventRow                 `json:"events"`
	shown      view.Host
}

func hostDescribeCommand(p *Program) *cobra.Command {
	var watch watchFlag
	output := ""
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "describe HOST",
		Short: "Show a host: how it is and why, the command that ends a trouble, its last operation, conditions and events",
		Long: `Show a host with all that is known of it: its state, what is wrong and the command that ends it,
the steps of its last operation, the conditions that are not as they should be (with -o wide all
of them and its facts), and its events. It takes the verbs get and list on hosts; what else the user
may not read is left out.`,
		Example: "  slipway host describe rack1-a\n  slipway host describe rack1-a -n prod -w",
		Args:    cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			return watch.show(cmd, output, func(ctx context.Context) (result, error) {
				d, err := describeHost(ctx, s, args[0])
				if err != nil {
					return result{}, s.cluster.Explain(err)
				}
				return result{object: d, names: []string{hostName(d.Name)}, table: func(page *display.Page, wide bool) error {
					d.write(page, wide, time.Now())
					return nil
				}}, nil
			})
		}),
		ValidArgsFunction: f.completeHosts(),
	}
	f.bind(command, "of the host")
	watch.bind(command)
	outputFlag(command, &output, listFormats...)
	return command
}

func describeHost(ctx context.Context, s *session, name string) (*described, error) {
	o, err := doctor.ReadFleet(ctx, s, status.Scope{Namespace: s.namespace}, time.Now(), status.Members, []snapshot.Kind{snapshot.Hosts})
	if err != nil {
		return nil, err
	}
	h := o.Host(s.namespace, name)
	if h == nil {
		return nil, fmt.Errorf("namespace %s has no host %s; see `slipway host list`", s.namespace, name)
	}
	events := &corev1.EventList{}
	if err := s.List(ctx, events, client.InNamespace(s.namespace)); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	timeline := view.Timeline{}
	for i := range events.Items {
		timeline.Set(&events.Items[i])
	}
	states := status.Judge(o)
	d := &described{
		Findings: append([]doctor.Finding{}, states.OfHost(h)...), Operation: h.Status.ObservedOperation, Conditions: append([]metav1.Condition{}, h.Status.Conditions...),
		Events: rowsOf(view.Folded(timeline.About("Host", s.namespace, name))), shown: view.HostOf(h, o, states, nil),
	}
	d.Host, d.Node, d.KubernetesVersion = d.shown.Host, d.shown.Node, d.shown.Version
	return d, nil
}

// maxDescribed is how many events a person is shown.
const maxDescribed = 10

func (d *described) write(page *display.Page, wide bool, now time.Time) {
	v := &d.shown
	row := display.Row{Cells: append(display.Texts(d.Namespace+"/"+d.Name), d.State.Cells(now)...)}
	for _, t := range append(v.Troubles, v.Notes...) {
		row.Notes = append(row.Notes, [2]string{"  because", t.Cause}, [2]string{"  next", t.Next})
	}
	page.Table(display.Table{Columns: display.Columns("HOST", "STATE", "FOR"), Rows: []display.Row{row}})
	facts := display.Table{}
	fact := func(name, value string) {
		if value != "" {
			facts.Rows = append(facts.Rows, display.Row{Cells: display.Texts(name, value)})
		}
	}
	agent := "not connected"
	if d.Connected {
		agent = "connected"
	}
	fact("Cluster", v.Cluster)
	fact("Machine", v.Machine)
	fact("Node", strings.TrimSpace(v.Node+" "+v.Version))
	fact("Agent", agent)
	fact("Address", strings.Join(d.Addresses, ", "))
	fact("Rack", d.FailureDomain)
	if wide {
		for _, f := range v.Facts {
			fact(f.Name, f.Value)
		}
	}
	fmt.Fprintln(page)
	page.Table(facts)
	if op := v.Operation; op != nil {
		steps := display.Table{Indent: "  ", Columns: display.Columns("STEP", "TOOK")}
		for _, s := range op.Steps {
			took := "for " + duration.HumanDuration(now.Sub(s.From))
			if s.Done {
				took = s.Took().Round(100 * time.Millisecond).String()
			}
			steps.Rows = append(steps.Rows, display.Row{Cells: []display.Cell{{Text: s.Word, Role: s.Role}, {Text: took}}})
		}
		fmt.Fprintf(page, "\nLAST OPERATION  %s: %s\n", op.Phase, strings.TrimSpace(op.State+" "+op.Message))
		page.Table(steps)
	}
	conditions := v.Conditions.Unexpected
	if wide {
		conditions = append(conditions, v.Conditions.Expected...)
	}
	if len(conditions) > 0 {
		table := display.Table{Columns: display.Columns("CONDITION", "STATUS", "FOR", "BECAUSE")}
		for _, c := range conditions {
			table.Rows = append(table.Rows, display.Row{Cells: []display.Cell{{Text: c.Type}, {Text: c.Status, Role: c.Role}, {Text: duration.HumanDuration(now.Sub(c.Since))}, {Text: cmp.Or(strings.Join(c.Lines, "; "), c.Reason)}}})
		}
		fmt.Fprintln(page)
		page.Table(table)
	}
	if len(d.Events) > 0 {
		fmt.Fprintln(page)
		_ = printEvents(page, d.Events[:min(len(d.Events), maxDescribed)], wide)
	}
}
