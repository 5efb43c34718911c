package agentrollout

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/text"
)

const (
	// named is how many hosts a message names before it counts the rest.
	named = 3
	// quoted is how many bytes of what an agent says a message has.
	quoted = 300
)

// notOfManager says why the manager does not roll out a release; empty when it does.
func notOfManager(r Rollout) string {
	manager := host.Versioned(r.ManagerVersion)
	if manager == nil {
		return fmt.Sprintf("slipway-manager is of version %q, which is no release: it rolls out no agents. Install a released slipway-manager", r.ManagerVersion)
	}
	if r.Release.Version == r.ManagerVersion {
		return ""
	}
	rule := fmt.Sprintf("slipway-manager is of version %s and rolls out the agents of that version alone. ", r.ManagerVersion)
	if release := host.Versioned(r.Release.Version); release != nil && release.LessThan(manager) {
		return rule + fmt.Sprintf("Nothing is to be done; `slipway bundle remove` takes away bundles that no host needs, and `slipway bundle load` brings that of slipway-agent %s", r.ManagerVersion)
	}
	return rule + fmt.Sprintf("Upgrade slipway-manager to %s to roll this one out", r.Release.Version)
}

func condition(reason, message string) metav1.Condition {
	return metav1.Condition{Type: infrav1.AgentReleaseRolledOutCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// hold notes why a host does not update now.
func (b *planner) hold() {
	for _, h := range b.waiting {
		if !slices.Contains(b.plan.Ask, h.Key) {
			b.plan.Held = append(b.plan.Held, Held{h.Key, b.why(h)})
		}
	}
}

func (b *planner) why(h Host) string {
	hindrance := b.hindrance(h)
	switch {
	case b.stop != "":
		return b.stop
	case hindrance != "":
		return hindrance
	case b.first():
		return fmt.Sprintf("%s goes first, alone", b.updating[0].Key)
	case b.turn == nil:
		return "hosts of several failure domains update"
	case b.turn.name != h.Domain:
		return title(b.turn.name) + " goes first"
	}
	return "as many of its failure domain update as may at once"
}

// conclude tells how far the rollout is.
func (b *planner) conclude() {
	release := b.rollout.Release
	for _, d := range b.domains {
		if d.updating > 0 {
			b.plan.Domain = d.name
			break
		}
	}
	progress := fmt.Sprintf("%d of %d hosts run slipway-agent %s or newer", b.plan.Updated, b.plan.Hosts, release.Version)
	switch {
	case b.plan.Updated == b.plan.Hosts:
		b.plan.Condition = condition(infrav1.AgentReleaseRolledOutReason, progress)
		b.plan.Condition.Status = metav1.ConditionTrue
		if b.plan.Hosts == 0 {
			b.plan.Condition.Message = "No host has an agent that updates itself"
		}
	case len(b.failed) > 0:
		b.plan.Condition = condition(infrav1.AgentReleaseHaltedReason, b.halted()+". "+progress)
	case ptr.Deref(release.Paused, false):
		b.plan.Condition = condition(infrav1.AgentReleasePausedReason, fmt.Sprintf(
			`spec.paused is set: no other host is asked to update. %s. To go on: kubectl patch agentreleases.infrastructure.slipway.dev %s --type=merge -p '{"spec":{"paused":false}}'`, progress, release.Version))
	default:
		b.plan.Condition = condition(infrav1.AgentReleaseRollingOutReason, progress+". "+b.waitsFor())
	}
}

func (b *planner) halted() string {
	tried := list(b.failed, func(h Host) string {
		text := fmt.Sprintf("Host %s went back to %s", h.Key, h.Agent.Version)
		if message := h.Agent.ReportOn(b.wanted).Message; message != "" {
			text += fmt.Sprintf(" (%s)", cut(message))
		}
		return text
	})
	return fmt.Sprintf("%s after it tried %s; no other host is asked to update. See journalctl -u slipway-agent there, then load a mended release by `slipway bundle load`. "+
		"If only that host is broken: mend it and install slipway-agent %s on it by hand, or delete its Host", tried, b.wanted.Version, b.wanted.Version)
}

// waitsFor says for whom the rollout waits, and what to do.
func (b *planner) waitsFor() string {
	key := func(h Host) string { return h.Key.String() }
	switch {
	case b.stop != "":
		return fmt.Sprintf("Waiting for %s: they were asked to update and are not connected since. The update may be why, so no other host is asked until they return. "+
			"Look at power and network of these hosts and at journalctl -u slipway-agent there; delete the Host of a machine that is gone", list(b.missing, key))
	case len(b.updating) > 0:
		return fmt.Sprintf("%s goes now; waiting for %s. If that lasts, condition %s of the Host tells why", capital(title(b.plan.Domain)), list(b.updating, key), infrav1.AgentUpdatedCondition)
	}
	held := slices.Clone(b.plan.Held)
	for _, h := range b.missing {
		held = append(held, Held{h.Key, "it was asked and is not connected since"})
	}
	return fmt.Sprintf("Waiting for %s. They are asked as soon as they can be; `slipway doctor` tells what to do", list(held, func(h Held) string { return fmt.Sprintf("%s (%s)", h.Host, h.Why) }))
}

// title names a failure domain.
func title(domain string) string {
	if domain == "" {
		return "the hosts without a failure domain"
	}
	return "failure domain " + domain
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// list names the first items and counts the rest.
func list[T any](items []T, name func(T) string) string {
	var names []string
	for _, item := range items {
		names = append(names, name(item))
	}
	return text.List(names, named)
}

func cut(message string) string { return text.Start(message, quoted) }
