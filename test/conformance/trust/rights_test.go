package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// persona is somebody with credentials of the management cluster.
type persona struct {
	name   string
	config *rest.Config
	// rights are all that they have, by namespace, besides those of every user.
	rights map[string][]string
}

// requests are what who enrolls may do with CertificateSigningRequests, by their names; what
// is signed is up to approval.
var requests = []string{"create certificatesigningrequests.certificates.k8s.io", "get certificatesigningrequests.certificates.k8s.io"}

// personas are the adversaries, and the agent of the victim to compare them with.
func (w *world) personas() []persona {
	hostID := func(name string) string { return "simulated-" + name }
	everywhere := func(rights []string) map[string][]string {
		return map[string][]string{namespace: rights, elsewhere: rights}
	}
	runs := rbacv1.PolicyRule{APIGroups: []string{lifecyclev1.GroupVersion.Group}, Resources: []string{"lifecycleruns"}, Verbs: []string{"get", "create"}}
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "update", "patch"}}
	hosts := rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, Verbs: []string{"get", "list", "watch", "patch"}}
	policies := rbacv1.PolicyRule{APIGroups: []string{lifecyclev1.GroupVersion.Group}, Resources: []string{"lifecyclepolicies"}, Verbs: []string{"get", "create", "update", "patch"}}
	thief := rest.AnonymousClientConfig(w.Config)
	thief.BearerToken = tokenID + "." + tokenSecret
	return []persona{
		{"the victim's own agent", w.agent(namespace, victim, hostID(victim)), map[string][]string{namespace: agentRights(victim)}},
		{"agent of another host", w.agent(namespace, neighbor, hostID(neighbor)), map[string][]string{namespace: agentRights(neighbor)}},
		{"agent of another tenant's host", w.agent(elsewhere, stranger, hostID(stranger)), map[string][]string{elsewhere: agentRights(stranger)}},
		{"agent of the machine that the victim replaced", w.agent(namespace, victim, formerHostID), everywhere(nil)},
		{"thief of the victim's enrollment certificate", w.impersonate(infrav1.EnrollmentUser(namespace, victim, hostID(victim)), infrav1.EnrollmentGroup), everywhere(requests)},
		{"agent whose name has no key", w.impersonate("slipway:host:"+namespace+":"+victim, "slipway:hosts"), everywhere(nil)},
		{"thief of an enrollment token", thief, everywhere(requests)},
		{"tenant without rights", w.impersonate("tina"), everywhere(nil)},
		{"tenant who may write Secrets", w.user("sam", secrets), map[string][]string{namespace: {"create secrets", "patch secrets", "update secrets"}}},
		{"operator of hosts", w.user("olga", hosts), map[string][]string{namespace: {
			"get hosts.infrastructure.slipway.dev", "list hosts.infrastructure.slipway.dev", "patch hosts.infrastructure.slipway.dev", "watch hosts.infrastructure.slipway.dev",
		}}},
		{"tenant who may create runs", w.user("rudi", runs), map[string][]string{namespace: {
			"create lifecycleruns.lifecycle.slipway.dev", "get lifecycleruns.lifecycle.slipway.dev",
		}}},
		{"decider", w.bound("dora", namespace, "slipway-lifecycle-decider"), map[string][]string{namespace: {
			"approve lifecyclepolicies.lifecycle.slipway.dev", "get lifecyclepolicies.lifecycle.slipway.dev", "get lifecycleruns.lifecycle.slipway.dev",
			"list lifecyclepolicies.lifecycle.slipway.dev", "list lifecycleruns.lifecycle.slipway.dev", "patch lifecycleruns.lifecycle.slipway.dev",
			"retry lifecyclepolicies.lifecycle.slipway.dev", "skip lifecyclepolicies.lifecycle.slipway.dev",
			"watch lifecyclepolicies.lifecycle.slipway.dev", "watch lifecycleruns.lifecycle.slipway.dev",
		}}},
		{"author of policies", w.user("paul", policies), map[string][]string{namespace: {
			"create lifecyclepolicies.lifecycle.slipway.dev", "get lifecyclepolicies.lifecycle.slipway.dev",
			"patch lifecyclepolicies.lifecycle.slipway.dev", "update lifecyclepolicies.lifecycle.slipway.dev",
		}}},
	}
}

func agentRights(name string) []string {
	var rights []string
	for resource, verbs := range map[string][]string{
		"hosts.infrastructure.slipway.dev":        {"get", "list", "watch"},
		"hosts/status.infrastructure.slipway.dev": {"get", "patch", "update"},
		"leases.coordination.k8s.io":              {"get", "patch", "update"},
	} {
		for _, verb := range verbs {
			rights = append(rights, fmt.Sprintf("%s %s named %s", verb, resource, name))
		}
	}
	return rights
}

// listRights lists everything that a user may do in a namespace, as the API server's own
// authorizer tells it.
func (w *world) listRights(config *rest.Config, in string) []string {
	w.t.Helper()
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	review, err := clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(w.t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if review.Status.Incomplete {
		w.t.Fatalf("the list of rights is not complete: %s", review.Status.EvaluationError)
	}
	var rights []string
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					right := strings.TrimSuffix(verb+" "+resource+"."+group, ".")
					if len(rule.ResourceNames) > 0 {
						right += " named " + strings.Join(rule.ResourceNames, ",")
					}
					rights = append(rights, right)
				}
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

// everybodys are the rights that Kubernetes gives every user: to ask who one is and what
// one may do.
var everybodys = []string{
	"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectreviews.authentication.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io",
}

// checkRights fails for every right that a persona has and should not, and the other way round.
func (w *world) checkRights(t *testing.T, p persona) {
	for _, in := range []string{namespace, elsewhere, metav1.NamespaceSystem, metav1.NamespaceDefault} {
		want := append(slices.Clone(p.rights[in]), everybodys...)
		if slices.ContainsFunc(p.rights[elsewhere], func(right string) bool { return right == requests[0] }) && p.rights[in] == nil {
			want = append(want, requests...) // which have no namespace
		}
		got := w.listRights(p.config, in)
		for _, right := range got {
			if !slices.Contains(want, right) {
				t.Errorf("may %s in namespace %s", right, in)
			}
		}
		for _, right := range want {
			if !slices.Contains(got, right) {
				t.Errorf("may not %s in namespace %s: it is listed for nothing", right, in)
			}
		}
	}
}
