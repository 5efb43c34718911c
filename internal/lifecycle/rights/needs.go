package rights

import (
	"cmp"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Right is what the engine has to be allowed, in a namespace.
type Right = authorizationv1.ResourceAttributes

// The ClusterRoles that are bound where policies need them; see config/lifecycle/rbac.
const (
	// StepsRole is for the namespace of a policy with steps other than gates, and for
	// those that export.namespace names.
	StepsRole = "slipway-lifecycle-steps"
	// JobsRole is for the namespace of a policy with Jobs in the management cluster.
	JobsRole = "slipway-lifecycle-jobs"
)

// roleOf returns the ClusterRole that has a right on a resource; empty when none of them has.
func roleOf(group, resource string) string {
	switch (schema.GroupResource{Group: group, Resource: resource}) {
	case schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}:
		return StepsRole
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}:
		return JobsRole
	}
	return ""
}

// Distinct returns rights, each once and by namespaces.
func Distinct(all []Right) []Right {
	var once []Right
	for _, r := range all {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	slices.SortStableFunc(once, func(a, b Right) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return once
}

// Verbs returns a right for each verb on the same.
func Verbs(on Right, verbs ...string) []Right {
	rights := make([]Right, len(verbs))
	for i, verb := range verbs {
		rights[i] = on
		rights[i].Verb = verb
	}
	return rights
}
