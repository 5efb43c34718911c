package snapshot

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Plane is the management cluster itself: a plane of this machine, or any other.
type Plane struct {
	// Ready is true when every component is; of one that is not a plane, when it answers.
	Ready bool `json:"ready"`
	// Message says why it is not ready.
	Message string `json:"message,omitempty"`
	// PID of the process, 0 when it is not running.
	PID int `json:"pid,omitempty"`
	// Start of the process; nil when it is not running.
	Start *time.Time `json:"start,omitempty"`
	// Server is the address of the API server, as seen from this machine.
	Server string `json:"server,omitempty"`
	// HostServer is the address of the API server as hosts on other machines see it, of a
	// plane that listens for them.
	HostServer string `json:"hostServer,omitempty"`
	// HostServerMessage says why they do not reach it there.
	HostServerMessage string `json:"hostServerMessage,omitempty"`
	// Service tells how systemd runs it, of a plane that is a service of its machine.
	Service string `json:"service,omitempty"`
	// Crashes of a plane of `slipway up` since that started it; nil when there were none.
	Crashes *PlaneCrashes `json:"crashes,omitempty"`
	// LastBackup is the last one that `slipway backup` made of it; nil when there is none.
	LastBackup *PlaneBackup `json:"lastBackup,omitempty"`
	// Unsupervised is true for a plane of `slipway up` whose supervisor has ended: nobody starts it
	// again after a crash.
	Unsupervised bool `json:"unsupervised,omitempty"`
	// Context of the kubeconfig, of a management cluster that is not a plane of this
	// machine.
	Context string `json:"context,omitempty"`
}

// PlaneBackup is a backup of a plane.
type PlaneBackup struct {
	// Created is when its snapshot was taken.
	Created time.Time `json:"created"`
	// Path it was written to.
	Path string `json:"path"`
}

// PlaneCrashes tells how often a plane ended by itself.
type PlaneCrashes struct {
	// Count of all.
	Count int `json:"count"`
	// Last is when it did so the last time.
	Last time.Time `json:"last"`
	// Reason of the last one: the first line of a panic, say.
	Reason string `json:"reason"`
}

// Summary is them in a line, as of now.
func (c *PlaneCrashes) Summary(now time.Time) string {
	ago := duration.HumanDuration(now.Sub(c.Last))
	if c.Count == 1 {
		return fmt.Sprintf("once, %s ago: %s", ago, c.Reason)
	}
	return fmt.Sprintf("%d times, the last %s ago: %s", c.Count, ago, c.Reason)
}
