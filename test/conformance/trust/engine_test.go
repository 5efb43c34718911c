package trust

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// theEngine is whoever stole the token of the lifecycle engine's ServiceAccount.
const theEngine = "the lifecycle engine"

// engineTakenOver has the thief act on hosts, Clusters and policies, and in namespaces
// where nobody granted the engine anything; and where somebody did, write what is not the
// engine's. That it may pass gates is what it is for.
func (w *world) engineTakenOver(t *testing.T) {
	config, err := w.As(t.Context(), "slipway-lifecycle-system", "slipway-lifecycle")
	if err != nil {
		t.Fatal(err)
	}
	thief, p := w.client(config), persona{name: theEngine}
	for _, attempts := range [][]attempt{onHosts(), onClusters(), writeSecrets(namespace), writeSecrets(metav1.NamespaceSystem)} {
		for _, a := range attempts {
			w.judge(t, p, thief, a)
		}
	}

	w.create(&corev1.Secret{ObjectMeta: meta(elsewhere, "database"), StringData: map[string]string{"password": "secret"}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: meta(elsewhere, "steps"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "slipway-lifecycle-steps"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "slipway-lifecycle-system", Name: "slipway-lifecycle"}},
	})
	w.eventually("the engine reads where a role of steps is bound", func(ctx context.Context) error {
		return read(&corev1.Secret{ObjectMeta: meta(elsewhere, "database")})(ctx, thief)
	})
	for _, a := range append(writeSecrets(elsewhere), attempt{"run a Job", create(job(elsewhere))}, attempt{"read a Secret of another namespace", read(&corev1.Secret{ObjectMeta: meta(namespace, "database")})}) {
		w.judge(t, p, thief, a)
	}
}

// onClusters are what the engine looks at, and others own.
func onClusters() []attempt {
	cluster, policy := &clusterv1.Cluster{ObjectMeta: meta(namespace, clusterName)}, &lifecyclev1.LifecyclePolicy{ObjectMeta: meta(namespace, policyName)}
	return []attempt{
		{"delete the Cluster", remove(cluster)},
		{"unpause the Cluster", patch(cluster, map[string]any{"spec": map[string]any{"paused": false}})},
		{"take a label off the Cluster", patch(cluster, map[string]any{"metadata": map[string]any{"labels": nil}})},
		{"delete the policy", remove(policy)},
		{"have the policy only look", patch(policy, map[string]any{"spec": map[string]any{"mode": "Audit"}})},
		{"make a policy", create(&lifecyclev1.LifecyclePolicy{ObjectMeta: meta(namespace, "own"), Spec: lifecyclev1.LifecyclePolicySpec{
			Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterDelete, Steps: []lifecyclev1.Step{{Name: "a", Approval: &lifecyclev1.ApprovalStep{}}}}},
		}})},
		{"run a Job", create(job(namespace))},
		{"run a Job in its own namespace", create(job("slipway-lifecycle-system"))},
		{"run a pod", create(&corev1.Pod{ObjectMeta: meta(namespace, "own"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}}})},
		{"bind a role of steps", create(&rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, "own"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "slipway-lifecycle-steps"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "slipway-lifecycle-system", Name: "slipway-lifecycle"}},
		})},
	}
}

// writeSecrets get the tokens, clusters and hosts of others by a Secret.
func writeSecrets(in string) []attempt {
	token := &corev1.Secret{ObjectMeta: meta(in, "own-token"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	return []attempt{
		{"make the token of a ServiceAccount in " + in, create(token)},
		{"make a kubeconfig in " + in, create(&corev1.Secret{ObjectMeta: meta(in, "own-kubeconfig"), Type: clusterv1.ClusterSecretType})},
		{"make a token of hosts in " + in, create(&corev1.Secret{ObjectMeta: meta(in, "bootstrap-token-yyyyyy"), Type: corev1.SecretTypeBootstrapToken})},
		{"hand the hosts of " + in + " over", create(handOver(in))},
		{"change a Secret in " + in, func(ctx context.Context, c client.Client) error {
			return c.Update(ctx, &corev1.Secret{ObjectMeta: meta(in, "database"), StringData: map[string]string{"password": ""}})
		}},
		{"delete a Secret in " + in, remove(&corev1.Secret{ObjectMeta: meta(in, "database")})},
	}
}

// job is one that somebody makes for themselves.
func job(in string) *batchv1.Job {
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	return &batchv1.Job{ObjectMeta: meta(in, "own"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
}
