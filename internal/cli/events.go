package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/text"
)

// eventRow is an event as `events` shows it.
type eventRow struct {
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`
	Namespace string    `json:"namespace"`
	Kind      string    `json:"kind"`
	Name      string    `json:"name"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	// Count is how often it happened.
	Count int32 `json:"count"`
}

func eventsCommand(p *Program) *cobra.Command {
	var shown listFlags
	var filter view.EventFilter
	var namespace managementFlags
	namespace.program = p
	command := &cobra.Command{
		Use:   "events [TEXT]",
		Short: "Show what happened to hosts, machines and clusters",
		Long: `Show the events of objects of Slipway and Cluster API, the newest first; equal ones that follow each
other are one. TEXT is part of an object's name, a reason or a message. A plane of slipway up keeps
events for seven days, other API servers for an hour by default (--event-ttl). It takes the right to
list events.`,
		Example: "  slipway events -w\n  slipway events host-3 --warnings",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := namespace.find(cmd)
			if err != nil {
				return err
			}
			s, err := namespace.session(cluster)
			if err != nil {
				return cluster.Explain(err)
			}
			filter.Text = strings.Join(args, "")
			return showList(cmd, shown, func(ctx context.Context) (list[eventRow], error) {
				rows, err := eventRows(ctx, s, namespace.namespace, filter)
				return eventsList(rows), cluster.Explain(err)
			})
		},
		ValidArgsFunction: namespace.completeHosts(),
	}
	namespace.bindCluster(command)
	command.Flags().StringVarP(&namespace.namespace, "namespace", "n", "", "only events of this namespace (default: all)")
	namespace.completeNamespaces(command)
	command.Flags().BoolVar(&filter.Warnings, "warnings", false, "only warnings")
	shown.bind(command)
	return command
}

// eventRows are the events that a filter leaves, equal ones folded.
func eventRows(ctx context.Context, c client.Reader, namespace string, filter view.EventFilter) ([]eventRow, error) {
	found := &corev1.EventList{}
	if err := c.List(ctx, found, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	timeline := view.Timeline{}
	for i := range found.Items {
		timeline.Set(&found.Items[i])
	}
	return rowsOf(view.Folded(timeline.Matching(filter))), nil
}

func rowsOf(events []view.Event) []eventRow {
	rows := []eventRow{}
	for _, e := range events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		rows = append(rows, eventRow{Time: e.Time, Type: kind, Namespace: e.Namespace, Kind: e.Kind, Name: e.Name, Reason: e.Reason, Message: e.Message, Count: e.Count})
	}
	return rows
}

func eventsList(rows []eventRow) list[eventRow] {
	return list[eventRow]{rows: rows, empty: "No events", name: func(r *eventRow) string { return strings.ToLower(r.Kind) + "/" + r.Name }, table: printEvents}
}

func printEvents(page *display.Page, rows []eventRow, _ bool) error {
	t := display.Table{Columns: display.Columns("AGE", "TYPE/3", "NAMESPACE/4", "OBJECT", "REASON/2", "COUNT/5", "MESSAGE")}
	now := time.Now()
	for _, r := range rows {
		role := display.Off
		if r.Type == corev1.EventTypeWarning {
			role = display.Bad
		}
		object := display.Cell{Text: r.Kind + "/" + r.Name}
		t.Rows = append(t.Rows, display.Row{Cells: append([]display.Cell{
			{Text: duration.HumanDuration(max(0, now.Sub(r.Time)))}, {Text: r.Type, Role: role}, {Text: r.Namespace}, object,
		}, display.Texts(cmp.Or(r.Reason, "-"), fmt.Sprint(r.Count), text.OneLine(r.Message))...)})
	}
	page.Table(t)
	return nil
}
