package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

// at is a finding about an object of a kind.
func at(gv schema.GroupVersion, kind string, o metav1.Object, severity Severity) Finding {
	return Finding{
		Severity: severity,
		Object:   Object{APIVersion: gv.String(), Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		Cluster:  o.GetLabels()[clusterv1.ClusterNameLabel],
	}
}

// atHost is a finding about a Host, of the cluster that has claimed it.
func atHost(h *infrav1.Host, severity Severity) Finding {
	f := at(infrav1.GroupVersion, "Host", h, severity)
	f.Cluster = ""
	if h.Spec.Claim != nil {
		f.Cluster = h.Spec.Claim.ClusterName
	}
	return f
}

// atCluster is a finding about a Cluster.
func atCluster(c *clusterv1.Cluster, severity Severity) Finding {
	f := at(clusterv1.GroupVersion, "Cluster", c, severity)
	f.Cluster = c.Name
	return f
}

// of takes message and time from a condition.
func (f Finding) of(c *metav1.Condition) Finding {
	f.Message = cmp.Or(c.Message, c.Reason)
	return f.since(c.LastTransitionTime.Time)
}

func (f Finding) since(t time.Time) Finding {
	f.Since = nil
	if !t.IsZero() {
		t = t.UTC()
		f.Since = &t
	}
	return f
}

// next is the command to run, whose arguments are quoted: others than administrators chose some of
// them, such as a machine its namespace in a request, or whoever may write a cluster its endpoint.
func (f Finding) next(format string, words ...string) Finding {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = snapshot.ShellWord(word)
	}
	f.Next = fmt.Sprintf(format, args...)
	return f
}

// severitySince is the severity of a trouble that a restart of a host or of one of its programs causes,
// too: a note in its first minute, an error from the fifth on.
func (s *Snapshot) severitySince(begin time.Time) Severity {
	switch age := s.Now.Sub(begin); {
	case age >= 5*time.Minute:
		return Error
	case age >= time.Minute:
		return Warning
	}
	return Note
}

// downPatience is how long a host may be away for a reboot or an upgrade that it was told to do.
const downPatience = 10 * time.Minute

// severityOn is severitySince on a host, h may be nil: what is away because it reboots or upgrades is a
// note for ten minutes.
func (s *Snapshot) severityOn(h *infrav1.Host, begin time.Time) Severity {
	if h != nil && s.Now.Sub(begin) < downPatience {
		if phase := host.StateOf(h).Phase; phase == infrav1.HostPhaseRebooting || phase == infrav1.HostPhaseUpgrading {
			return Note
		}
	}
	return s.severitySince(begin)
}

// upToWarning is the severity, and at most a warning.
func (s Severity) upToWarning() Severity {
	if s == Error {
		return Warning
	}
	return s
}

// describe is the command that shows conditions and events of the object.
func (f Finding) describe() Finding {
	if f.Object.Namespace == "" {
		return f.next("kubectl describe %s", f.Object.Resource())
	}
	return f.next("kubectl describe %s -n %s", f.Object.Resource(), f.Object.Namespace)
}

// condition returns one with that status and, unless none is given, one of the reasons; nil
// when there is none.
func condition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reasons ...string) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != status || len(reasons) > 0 && !slices.Contains(reasons, c.Reason) {
		return nil
	}
	return c
}

// each collects what a check finds in objects, one at most in each.
func each[T any](objects []T, find func(*T) (Finding, bool)) []Finding {
	var found []Finding
	for i := range objects {
		if f, ok := find(&objects[i]); ok {
			found = append(found, f)
		}
	}
	return found
}

// none is the answer of a check that found nothing.
func none() (Finding, bool) { return Finding{}, false }
