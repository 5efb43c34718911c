package kube

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// rolesAggregated tells whether every ClusterRole that aggregates others has
// rules, if any it selects has.
func rolesAggregated(env *environment) error {
	roles, err := env.informers.Rbac().V1().ClusterRoles().Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list ClusterRoles: %w", err)
	}
	for _, role := range roles {
		if role.AggregationRule == nil || len(role.Rules) > 0 {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				// Somebody's broken role is not a reason to wait.
				continue
			}
			if anyRules(roles, selector) {
				return fmt.Errorf("waiting for the rules of ClusterRole %s", role.Name)
			}
		}
	}
	return nil
}

func anyRules(roles []*rbacv1.ClusterRole, selector labels.Selector) bool {
	for _, role := range roles {
		if len(role.Rules) > 0 && selector.Matches(labels.Set(role.Labels)) {
			return true
		}
	}
	return false
}
