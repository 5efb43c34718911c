package privilege

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// granted has the engine say what it may not do, and somebody run the commands that it
// names, as they are.
func (e *engine) granted(t *testing.T) {
	e.deniedWhatNobodyGranted(t)
	ready := e.ready("life", lifecyclev1.RightsMissingReason)
	commands := 0
	for part := range strings.SplitSeq(ready.Message, "; ") {
		if command, ok := strings.CutPrefix(part, "grant it by: "); ok {
			judge.RunCommand(t, e.Config, command)
			commands++
		}
	}
	if commands != 2 {
		t.Errorf("want a command for steps and one for Jobs: %s", ready.Message)
	}
	// The engine looks again within half a minute, or when the policy changes.
	policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "life"}}
	if err := e.Client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"runHistoryLimit": 4}}`))); err != nil {
		t.Fatal(err)
	}
	e.ready("life", lifecyclev1.PolicyReadyReason)
}

// deniedWhatNobodyGranted tries what the engine may do in a namespace at once, and that it
// cannot grant itself more.
func (e *engine) deniedWhatNobodyGranted(t *testing.T) {
	t.Helper()
	config, err := e.As(t.Context(), engineNamespace, "slipway-lifecycle")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	job := func(namespace string) *batchv1.Job {
		pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
		return &batchv1.Job{ObjectMeta: in(namespace, "own"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: in(namespace, "more"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "slipway-lifecycle-steps"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: engineNamespace, Name: "slipway-lifecycle"}},
	}
	for what, err := range map[string]error{
		"read a Secret":               c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "key"}, &corev1.Secret{}),
		"list Secrets":                c.List(t.Context(), &corev1.SecretList{}),
		"read a ConfigMap":            c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "network"}, &corev1.ConfigMap{}),
		"write a log":                 c.Create(t.Context(), &corev1.Secret{ObjectMeta: in(namespace, "log"), Type: "lifecycle.slipway.dev/job-log"}),
		"make a Job":                  c.Create(t.Context(), job(namespace)),
		"make a Job beside itself":    c.Create(t.Context(), job(engineNamespace)),
		"read Secrets beside itself":  c.Get(t.Context(), client.ObjectKey{Namespace: engineNamespace, Name: "a"}, &corev1.Secret{}),
		"list pods":                   c.List(t.Context(), &corev1.PodList{}, client.InNamespace(namespace)),
		"grant itself the rights":     c.Create(t.Context(), binding),
		"grant them everywhere":       c.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: in("", "more"), RoleRef: binding.RoleRef, Subjects: binding.Subjects}),
		"add to its own ClusterRole":  c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: in("", "more")}),
		"take another ServiceAccount": c.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: in(namespace, "default")}, &authenticationv1.TokenRequest{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("nobody granted it, and it may %s: %v", what, err)
		}
	}
}

// ready waits for the reason of a policy's condition Ready.
func (e *engine) ready(policy, reason string) *metav1.Condition {
	e.t.Helper()
	var ready *metav1.Condition
	e.eventually(policy+" is "+reason, func(ctx context.Context) error {
		p := &lifecyclev1.LifecyclePolicy{}
		if err := e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: policy}, p); err != nil {
			return err
		}
		if ready = meta.FindStatusCondition(p.Status.Conditions, lifecyclev1.ReadyCondition); ready == nil || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	return ready
}
