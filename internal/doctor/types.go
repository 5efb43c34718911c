package doctor

import (
	"strings"
	"time"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	// Error is what does not work and will not by itself.
	Error Severity = "error"
	// Warning is what stands still, or will fail.
	Warning Severity = "warning"
	// Note is what somebody wanted and may have forgotten.
	Note Severity = "note"
)

// Report is what doctor found.
type Report struct {
	// Time of the snapshot.
	Time time.Time `json:"time"`
	// Findings, the most severe first, then in the order of Checks and by object.
	Findings []Finding `json:"findings"`
	// Unread is what the user may not read: checks that need it found nothing.
	Unread []Unread `json:"unread,omitempty"`

	// hosts and clusters are how many were looked at.
	hosts, clusters int
}

// Count is how many findings have the severity.
func (r Report) Count(severity Severity) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Severity == severity {
			n++
		}
	}
	return n
}

// Finding is one thing that is wrong.
type Finding struct {
	// Check is the name of the failure pattern; docs/troubleshooting.md has it.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Object   Object   `json:"object"`
	// Cluster that suffers from it; empty for none or several.
	Cluster string `json:"cluster,omitempty"`
	Message string `json:"message"`
	// Since is when it began; nil when that is not known.
	Since *time.Time `json:"since,omitempty"`
	// Next is the next command, and where it is run when that is not here.
	Next string `json:"next"`
	// Remedy is what mends it in general.
	Remedy string `json:"remedy"`

	effect Effect
}

// Effect is what it says about how its object is.
func (f *Finding) Effect() Effect { return f.effect }

// Object is where something is wrong.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is the object for a person: "Host default/host-1".
func (o Object) String() string {
	if o.Namespace == "" {
		return strings.TrimSpace(o.Kind + " " + o.Name)
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Resource is the object as kubectl takes it: <kind>.<group>/<name>.
func (o Object) Resource() string {
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	if !grouped {
		return strings.ToLower(o.Kind) + "/" + o.Name
	}
	return strings.ToLower(o.Kind) + "." + group + "/" + o.Name
}
