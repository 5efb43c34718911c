package rights_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, clientgoscheme.AddToScheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// eachKind has a step of each kind, and everything they take rights for.
func eachKind() *lifecyclev1.LifecyclePolicy {
	steps := []lifecyclev1.Step{
		{Expression: &lifecyclev1.ExpressionStep{}}, {Window: &lifecyclev1.WindowStep{}}, {Approval: &lifecyclev1.ApprovalStep{}},
		{Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "a"}, {Kind: "Secret", Name: "b"}}}},
		{Job: &lifecyclev1.JobStep{}}, {Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement}},
		{Webhook: &lifecyclev1.WebhookStep{SecretName: "c"}}, {Wait: &lifecyclev1.WaitStep{}},
		{Export: &lifecyclev1.ExportStep{}}, {Export: &lifecyclev1.ExportStep{Namespace: "archives"}},
	}
	return &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"},
		Spec:       lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Steps: steps}}},
	}
}

// released are the rights of the roles that the release has for namespaces.
func released(t *testing.T) map[string][]string {
	t.Helper()
	data, err := config.Lifecycle.ReadFile("lifecycle/rbac/step_roles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(document), role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[role.Name] = append(all[role.Name], verb+" "+resource+"."+rule.APIGroups[0])
				}
			}
		}
		slices.Sort(all[role.Name])
	}
	return all
}

// The roles of the release have what steps take, no more and no less.
func TestTheRolesAreWhatStepsTake(t *testing.T) {
	needed := map[string][]string{}
	for _, r := range step.Needed(eachKind()).Engine {
		role, what := rights.StepsRole, r.Resource
		if r.Group == batchv1.GroupName || r.Resource == "pods" {
			role = rights.JobsRole
		}
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		needed[role] = append(needed[role], r.Verb+" "+what+"."+r.Group)
	}
	got := released(t)
	for role := range needed {
		slices.Sort(needed[role])
		if needed[role] = slices.Compact(needed[role]); !slices.Equal(got[role], needed[role]) {
			t.Errorf("ClusterRole %s has %q, steps take %q", role, got[role], needed[role])
		}
	}
	if len(got) != len(needed) {
		t.Errorf("there are other roles: %v", got)
	}
}

func TestRightsAreNeededWhereTheyAreUsed(t *testing.T) {
	archive := &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"},
		Spec: lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Steps: []lifecyclev1.Step{
			{Export: &lifecyclev1.ExportStep{Namespace: "archives"}}, {Approval: &lifecyclev1.ApprovalStep{}}, {Wait: &lifecyclev1.WaitStep{}},
		}}}},
	}
	want := []string{"archives get", "archives create", "archives update", "archives delete", "team-a get"}
	var got []string
	for _, r := range step.Needed(archive).Engine {
		got = append(got, r.Namespace+" "+r.Verb)
	}
	if !slices.Equal(got, want) {
		t.Errorf("needs %q, want %q", got, want)
	}
}

// engine is a user of the API server without rights.
func engine(t *testing.T, name string) (*rights.Checker, client.Client) {
	t.Helper()
	testenv.Skip(t)
	as := env.As(name)
	checker, err := rights.New(as)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(as, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return checker, c
}

// A refusal for want of a right says how it is granted, and is none that a step fails of;
// one of admission stays what it is.
func TestRefusalsSayHowARightIsGranted(t *testing.T) {
	checker, plain := engine(t, "system:serviceaccount:engines:slipway-lifecycle")
	namespace := env.Namespace(t)
	c, reader := checker.Client(plain), checker.Reader(plain)
	object := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	}
	refused := map[string]func() error{
		"get secrets a":    func() error { return c.Get(t.Context(), client.ObjectKeyFromObject(object()), object()) },
		"list secrets":     func() error { return c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)) },
		"create secrets":   func() error { return c.Create(t.Context(), object()) },
		"update secrets a": func() error { return c.Update(t.Context(), object()) },
		"patch secrets a": func() error {
			return c.Patch(t.Context(), object(), client.RawPatch("application/merge-patch+json", []byte("{}")))
		},
		"delete secrets a": func() error { return c.Delete(t.Context(), object()) },
		"get configmaps kube": func() error {
			return reader.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kube"}, &corev1.ConfigMap{})
		},
	}
	command := "; grant it by: kubectl create rolebinding slipway-lifecycle-steps -n " + namespace + " --clusterrole=slipway-lifecycle-steps --serviceaccount=engines:slipway-lifecycle"
	for right, try := range refused {
		err := fmt.Errorf("do it: %w", try())
		if !rights.IsMissing(err) || !step.IsUnreached(err) || !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), "slipway-lifecycle may not "+right+" in namespace "+namespace+command) {
			t.Errorf("%s: %v", right, err)
		}
	}

	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: rights.StepsRole},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get", "create"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "engines", Name: "slipway-lifecycle"}},
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}},
	}
	for _, object := range []client.Object{role, binding, quota} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the right has come", func() error {
		if err := refused["get secrets a"](); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"count/secrets": resource.MustParse("0")}
	if err := env.Client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the quota refuses", func() error {
		_ = env.Client.Delete(t.Context(), object())
		if err := refused["create secrets"](); !apierrors.IsForbidden(err) || rights.IsMissing(err) || step.IsUnreached(err) {
			return fmt.Errorf("want the refusal of the quota as it is, got %w", err)
		}
		return nil
	})
}

func TestWhoTheEngineIs(t *testing.T) {
	for user, want := range map[string]string{"system:serviceaccount:engines:slipway-lifecycle": "engines", "somebody": ""} {
		checker, _ := engine(t, user)
		if got, err := checker.Namespace(t.Context()); err != nil || got != want {
			t.Errorf("%s is of namespace %q, %v; want %q", user, got, err, want)
		}
	}
}
