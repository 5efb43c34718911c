package judge

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Around are the lines of a history that concern some hosts, from so long before an entry
// to so long after it. What says the same as the line before about an object is left out.
func Around(entries []Entry, center Entry, span time.Duration, hosts []string) ([]string, error) {
	w, last := newWorld(), map[string]string{}
	var lines []string
	for _, e := range Order(entries) {
		c, err := w.apply(e)
		if err != nil {
			return nil, err
		}
		text := describe(c)
		key := e.Cluster + e.Kind() + e.Name()
		if text == last[key] || !concerns(text, hosts) {
			continue
		}
		last[key] = text
		if gap := e.Seen.Sub(center.Seen); gap >= -span && gap <= span {
			lines = append(lines, fmt.Sprintf("%s %8d %s", e.Seen.UTC().Format("15:04:05.000"), e.Revision, text))
		}
	}
	return lines, nil
}

// concerns says whether a line names one of the hosts, or what concerns all.
func concerns(text string, hosts []string) bool {
	for _, h := range hosts {
		if strings.Contains(text+" ", h+" ") || strings.Contains(text, h+"/") {
			return true
		}
	}
	return len(hosts) == 0 || strings.HasPrefix(text, "fault") || strings.HasPrefix(text, "cluster")
}

// describe is one line of what matters of a change.
func describe(c change) string {
	o := c.after
	if o == nil {
		o = c.before
	}
	head := fmt.Sprintf("%s %s %s", c.Verb, c.Kind(), c.Name())
	if c.Unseen {
		head += " (after it was lost)"
	}
	switch o := o.(type) {
	case nil:
		if c.Verb == Injected || c.Verb == Undone {
			return fmt.Sprintf("fault %s: %s ", strings.ToLower(string(c.Verb)), c.Text)
		}
		return fmt.Sprintf("cluster %q %s", c.Cluster, strings.ToLower(string(c.Verb)))
	case *infrav1.Host:
		return head + " " + describeHost(o)
	case *infrav1.HostMachine:
		return head + fmt.Sprintf(" providerID=%s deleting=%t %s", o.Spec.ProviderID, deleting(o), reason(o.Status.Conditions, clusterv1.ReadyCondition))
	case *infrav1.HostMachinePool:
		return head + fmt.Sprintf(" list=%v ready=%d %s", o.Spec.ProviderIDList, o.Status.ReadyReplicas, reason(o.Status.Conditions, clusterv1.ReadyCondition))
	case *clusterv1.Machine:
		return head + fmt.Sprintf(" providerID=%s deleting=%t phase=%s node=%s", o.Spec.ProviderID, deleting(o), o.Status.Phase, o.Status.NodeRef.Name)
	case *corev1.Node:
		return head + fmt.Sprintf(" of %s providerID=%s ready=%t", c.Cluster, o.Spec.ProviderID, nodeIsReady(o))
	}
	return head
}

func deleting(o client.Object) bool { return !o.GetDeletionTimestamp().IsZero() }

func describeHost(h *infrav1.Host) string {
	var s strings.Builder
	fmt.Fprintf(&s, "phase=%s generation=%d deleting=%t", h.Status.Phase, h.Spec.ClaimGeneration, deleting(h))
	if c := h.Spec.Claim; c != nil {
		fmt.Fprintf(&s, " claim=%s/%s", c.MachineName, c.ClaimID)
	}
	if d := h.Spec.Desired; d != nil {
		fmt.Fprintf(&s, " desired=%s", d.Phase)
	}
	if o := h.Status.ObservedOperation; o != nil {
		fmt.Fprintf(&s, " operation=%s/%s/%s %s", o.Phase, o.State, o.Step, o.Reason)
	}
	if p := h.Status.CleanProof; p != nil {
		fmt.Fprintf(&s, " proof=%d", p.ClaimGeneration)
	}
	return s.String() + " " + reason(h.Status.Conditions, infrav1.AgentConnectedCondition)
}
