package view

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// EventFilter narrows the events. The zero value is all of them.
type EventFilter struct {
	// Text is part of what an event says, or of the name of what it is about.
	Text string
	// Warnings leaves out what is only told.
	Warnings bool
	Page     int
}

// Events are what happened to objects of Slipway and Cluster API, the newest first.
type Events struct {
	Filter EventFilter
	// Total counts all of them, Warnings some.
	Total, Warnings int
	Shown           []Event
	Pager           Pager
}

// Event is one of them.
type Event struct {
	Time                  time.Time
	Warning               bool
	Namespace, Kind, Name string
	// Page of the object; empty for one without.
	Page            string
	Reason, Message string
	// Count is how often it happened.
	Count int32
}

// ours leaves out what happens to pods and the like of the management cluster.
func ours(about corev1.ObjectReference) bool {
	group := about.GroupVersionKind().Group
	return group == infrav1.GroupVersion.Group || group == lifecyclev1.GroupVersion.Group || group == clusterAPI || strings.HasSuffix(group, "."+clusterAPI)
}

// clusterAPI is the group of Cluster API, and the end of those of its providers.
const clusterAPI = "cluster.x-k8s.io"

func eventOf(e *corev1.Event) Event {
	v := Event{
		Time: eventTime(e), Warning: e.Type == corev1.EventTypeWarning, Namespace: e.InvolvedObject.Namespace, Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name,
		Reason: e.Reason, Message: withoutDumps(e.Message), Count: max(1, e.Count),
	}
	v.Page = PageOf(v.Kind, v.Namespace, v.Name, "")
	if e.Series != nil {
		v.Count = max(v.Count, e.Series.Count)
	}
	return v
}

// eventTime is when an Event was last seen, by whichever of its times is set.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.UTC()
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.UTC()
	case !e.EventTime.IsZero():
		return e.EventTime.UTC()
	}
	return e.CreationTimestamp.UTC()
}

// dump is an object reference as Go prints it.
var dump = regexp.MustCompile(`\[?&?\{Kind:(\w*) Namespace:\S* Name:(\S*) [^{}]*\}\]?`)

// withoutDumps has the kinds and names of objects that Cluster API prints with all their fields.
func withoutDumps(message string) string { return dump.ReplaceAllString(message, "$1 $2") }

// Folded are events of which equal ones that follow each other are one, with the time of the latest.
func Folded(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if n := len(out) - 1; n >= 0 {
			same := out[n]
			same.Time, same.Count = e.Time, e.Count
			if same == e {
				out[n].Count += e.Count
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

func (f EventFilter) shows(e *Event) bool {
	if f.Warnings && !e.Warning {
		return false
	}
	return containsFold(f.Text, e.Namespace+"/"+e.Name, e.Kind, e.Reason, e.Message)
}

// containsFold says whether a text is part of one of others, in large or small letters.
func containsFold(text string, others ...string) bool {
	text = strings.ToLower(text)
	return text == "" || slices.ContainsFunc(others, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}
