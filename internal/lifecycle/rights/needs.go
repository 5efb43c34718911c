package rights

import (
	"cmp"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
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

// Needs returns the rights that the steps of a policy take, each once and by namespaces.
// Gates take none.
func Needs(p *lifecyclev1.LifecyclePolicy) []Right {
	var needs []Right
	for i := range p.Spec.Hooks {
		for j := range p.Spec.Hooks[i].Steps {
			needs = append(needs, ofStep(p.Namespace, &p.Spec.Hooks[i].Steps[j])...)
		}
	}
	var once []Right
	for _, r := range needs {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	slices.SortStableFunc(once, func(a, b Right) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return once
}

func ofStep(namespace string, s *lifecyclev1.Step) []Right {
	// A kubeconfig, whose name is that of a Cluster.
	kubeconfig := Right{Namespace: namespace, Verb: "get", Resource: "secrets"}
	switch {
	case s.Apply != nil:
		needs := []Right{kubeconfig}
		for _, source := range s.Apply.Sources {
			resource := "configmaps"
			if source.Kind == "Secret" {
				resource = "secrets"
			}
			needs = append(needs, Right{Namespace: namespace, Verb: "get", Resource: resource, Name: source.Name})
		}
		return needs
	case s.Webhook != nil:
		return []Right{{Namespace: namespace, Verb: "get", Resource: "secrets", Name: s.Webhook.SecretName}}
	case s.Wait != nil:
		return []Right{kubeconfig}
	case s.Export != nil:
		return append([]Right{kubeconfig}, verbs(Right{Namespace: cmp.Or(s.Export.Namespace, namespace), Resource: "secrets"}, "get", "create", "update", "delete")...)
	case s.Job != nil:
		return ofJob(namespace, s.Job)
	}
	return nil
}

// ofJob are rights on the Job, and on the Secret with its log.
func ofJob(namespace string, s *lifecyclev1.JobStep) []Right {
	needs := verbs(Right{Namespace: namespace, Resource: "secrets"}, "get", "create", "update")
	if s.Target == lifecyclev1.TargetManagement {
		needs = append(needs, verbs(Right{Namespace: namespace, Group: batchv1.GroupName, Resource: "jobs"}, "get", "create", "patch", "delete")...)
		needs = append(needs,
			Right{Namespace: namespace, Verb: "list", Resource: "pods"},
			Right{Namespace: namespace, Verb: "get", Resource: "pods", Subresource: "log"})
	}
	return needs
}

func verbs(on Right, verbs ...string) []Right {
	rights := make([]Right, len(verbs))
	for i, verb := range verbs {
		rights[i] = on
		rights[i].Verb = verb
	}
	return rights
}
