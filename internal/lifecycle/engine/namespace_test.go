package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/lifecycle/engine"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// confined returns a user that has the engine's released rights in one namespace alone, and
// in the whole management cluster the right to ask what others may do.
func confined(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	user := "system:serviceaccount:" + namespace + ":slipway-lifecycle"
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	data, err := config.Lifecycle.ReadFile("lifecycle/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	released := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, released); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "engine"}
	reviews := metav1.ObjectMeta{Name: namespace + "-reviews"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: append(released.Rules,
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}})},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}},
		&rbacv1.ClusterRole{ObjectMeta: reviews, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: reviews, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reviews.Name}},
	} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return env.As(user, "system:serviceaccounts")
}

// held is a policy that has Clusters wait for the label go, and holds their deletion back.
func held(namespace, name string) *lifecyclev1.LifecyclePolicy {
	steps := []lifecyclev1.Step{{Name: "labelled", Expression: &lifecyclev1.ExpressionStep{Expression: `"go" in cluster.metadata.?labels.orValue({})`}}}
	return &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{
			{Hook: lifecyclev1.BeforeClusterCreate, Steps: steps}, {Hook: lifecyclev1.BeforeClusterDelete, Steps: steps},
		}},
	}
}

// An engine that watches one namespace does all of its work with rights there, and none of
// it elsewhere: a Cluster of another namespace neither passes nor waits, as if it had no
// policies, and a policy there is not taken for one that counts.
func TestOneNamespace(t *testing.T) {
	testenv.Skip(t)
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	// Made before there was a webhook.
	if err := env.Client.Create(t.Context(), held(elsewhere, "before")); err != nil {
		t.Fatal(err)
	}
	e := startEngineAs(t, confined(t, namespace), namespace, func(o *engine.Options) { o.Namespace = namespace })
	for _, in := range []string{namespace, elsewhere} {
		e.callWebhooks(t, in)
	}
	poll.Until(t, "the webhook is called", func() error { return refused(t, namespace) })
	if err := env.Client.Create(t.Context(), held(namespace, "p")); err != nil {
		t.Fatal(err)
	}
	mine, foreign := newCluster(t, namespace, "c"), newCluster(t, elsewhere, "c")

	e.works(t, mine)
	err := e.passes(t.Context(), foreign)
	if err == nil || !strings.Contains(err.Error(), "answers for namespace "+namespace+" only") || !strings.Contains(err.Error(), "namespaceSelector") {
		t.Errorf("for a Cluster elsewhere the answer is %v", err)
	}
	runs := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(t.Context(), runs, client.InNamespace(elsewhere)); err != nil || len(runs.Items) != 0 {
		t.Errorf("there are %d runs elsewhere, %v", len(runs.Items), err)
	}
	poll.Until(t, "the webhook is called elsewhere, and admits no policy", func() error {
		return forbidden(env.Client.Create(t.Context(), held(elsewhere, "p"), client.DryRunAll), "metadata.namespace: ")
	})

	if err := forbidden(deleteNamespace(t, namespace), "LifecyclePolicy p holds back the deletion of Cluster c"); err != nil {
		t.Error(err)
	}
	if err := deleteNamespace(t, elsewhere); err != nil {
		t.Errorf("another namespace cannot be deleted: %v", err)
	}
}

// works holds a Cluster back until it has the label.
func (e *replica) works(t *testing.T, cluster *clusterv1.Cluster) {
	t.Helper()
	poll.Until(t, "it waits", func() error {
		if e.passes(t.Context(), cluster) == nil {
			t.Fatal("it passes without the label")
		}
		return phaseIs(t, cluster.Namespace, cluster, lifecyclev1.RunWaiting)
	})
	before := cluster.DeepCopy()
	cluster.Labels = map[string]string{"go": ""}
	if err := env.Client.Patch(t.Context(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "it passes", func() error { return e.passes(t.Context(), cluster) })
}

func deleteNamespace(t *testing.T, name string) error {
	t.Helper()
	return env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.DryRunAll)
}

// forbidden is nil for a refusal that says why.
func forbidden(err error, why string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("want it refused with %q, got %w", why, err)
	}
	return nil
}
