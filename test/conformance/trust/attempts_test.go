package trust

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// attempt is what somebody tries with what is not theirs.
type attempt struct {
	name string
	try  func(ctx context.Context, c client.Client) error
}

func meta(in, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: in, Name: name} }

func read(object client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
}

func list(objects client.ObjectList) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.List(ctx, objects, client.InNamespace(namespace))
	}
}

func create(object client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, object.DeepCopyObject().(client.Object))
	}
}

func remove(object client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object) }
}

// patch writes fields without reading the object first.
func patch(object client.Object, fields map[string]any, subresource ...string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		data, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		change := client.RawPatch("application/merge-patch+json", data)
		target := object.DeepCopyObject().(client.Object)
		if len(subresource) > 0 {
			return c.SubResource(subresource[0]).Patch(ctx, target, change)
		}
		return c.Patch(ctx, target, change)
	}
}

// handOver leads the hosts of a namespace elsewhere, for an hour.
func handOver(in string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: meta(in, infrav1.HandOverSecretName), Type: infrav1.HandOverSecretType, StringData: map[string]string{
		infrav1.HandOverKubeconfigKey: "", infrav1.HandOverExpirationKey: time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}}
	s.Labels = map[string]string{infrav1.PurposeLabel: infrav1.HandOverPurpose}
	return s
}

// desired requests an operation of the agent.
func desired(operation map[string]any) map[string]any {
	return map[string]any{"spec": map[string]any{"desired": operation}}
}

// onHosts are what nobody but the manager, and the victim's agent where it says so, may do.
func onHosts() []attempt {
	host, lease := &infrav1.Host{ObjectMeta: meta(namespace, victim)}, &coordinationv1.Lease{ObjectMeta: meta(namespace, victim)}
	smuggled := &infrav1.Host{ObjectMeta: meta(namespace, "smuggled"), Spec: infrav1.HostSpec{HostID: "smuggled"}}
	return []attempt{
		{"read the Host", read(host)},
		{"list Hosts", list(&infrav1.HostList{})},
		{"list HostMachines", list(&infrav1.HostMachineList{})},
		{"read bootstrap data", read(&corev1.Secret{ObjectMeta: meta(namespace, bootstrapSecret)})},
		{"read another Secret", read(&corev1.Secret{ObjectMeta: meta(namespace, "database")})},
		{"list Secrets", list(&corev1.SecretList{})},
		{"hand the Hosts over", create(handOver(namespace))},
		{"make a Secret for something else a hand-over", create(&corev1.Secret{ObjectMeta: meta(namespace, infrav1.HandOverSecretName)})},
		{"read the token of a hand-over", read(handOver(namespace))},
		{"request a reset", patch(host, desired(map[string]any{"phase": infrav1.HostDesiredReset, "operationID": "theirs"}))},
		{"claim the Host", patch(host, map[string]any{"spec": map[string]any{"claim": map[string]any{"machineName": "m", "clusterName": "c", "claimID": "x"}}})},
		{"request other bootstrap data", patch(host, desired(map[string]any{
			"phase": infrav1.HostDesiredBootstrapped, "operationID": "theirs", "bootstrapSecretName": "database",
		}))},
		{"label the Host as other hardware", patch(host, map[string]any{"metadata": map[string]any{"labels": map[string]any{infrav1.HardwareLabelPrefix + "gpu": "theirs"}}})},
		{"approve the Host", patch(host, map[string]any{"spec": map[string]any{"approval": "Approved"}})},
		{"deny the Host", patch(host, map[string]any{"spec": map[string]any{"approval": "Denied"}})},
		{"approve all Hosts", create(&infrav1.HostApprovalPolicy{
			ObjectMeta: meta(namespace, infrav1.HostApprovalPolicyName), Spec: infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalAuto},
		})},
		{"take the Host over with another key", patch(host, map[string]any{"spec": map[string]any{"hostID": formerHostID}})},
		{"assign the Host to another namespace", patch(host, map[string]any{"spec": map[string]any{"assignedNamespace": elsewhere}})},
		{"have the agent become another program", patch(host, map[string]any{"spec": map[string]any{
			"agent": map[string]any{"version": "v99.0.0", "releaseDigest": "sha256:" + strings.Repeat("0", 64)},
		}})},
		{"forge facts", patch(host, map[string]any{"status": map[string]any{"observed": map[string]any{"phase": "Available"}}}, "status")},
		{"forge conditions", patch(host, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}}, "status")},
		{"keep the Lease for ever", patch(lease, map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/stay"}}})},
		{"forge a heartbeat", patch(lease, map[string]any{"spec": map[string]any{"renewTime": "2099-01-01T00:00:00.000000Z"}})},
		{"end the heartbeat", remove(lease)},
		{"delete the Host", remove(host)},
		{"smuggle a Host in", create(smuggled)},
		{"make a token", create(&corev1.Secret{ObjectMeta: meta(metav1.NamespaceSystem, "bootstrap-token-zzzzzz"), Type: corev1.SecretTypeBootstrapToken})},
		{"grant themselves more", create(&rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, "more"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		})},
	}
}

// onRuns are what nobody but the engine may do.
func (w *world) onRuns() []attempt {
	run, policy := &lifecyclev1.LifecycleRun{ObjectMeta: meta(namespace, runName)}, &lifecyclev1.LifecyclePolicy{ObjectMeta: meta(namespace, policyName)}
	approved := w.newRun("approved")
	approved.Spec.Decisions = []lifecyclev1.Decision{{Type: lifecyclev1.DecisionApprove, Step: "approve", By: "boss", Time: metav1.Now().Rfc3339Copy()}}
	return []attempt{
		{"make a run that is approved", create(approved)},
		{"make a run", create(w.newRun("another"))},
		{"write a decision into the run", patch(run, map[string]any{"spec": map[string]any{"decisions": approved.Spec.Decisions}})},
		{"write progress into the run", patch(run, map[string]any{"spec": map[string]any{"progress": []any{map[string]any{
			"name": "approve", "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:00:01Z", "outcome": "Succeeded",
		}}}})},
		{"give the run up", patch(run, map[string]any{"spec": map[string]any{"cancelled": "never mind"}})},
		{"lead the run to another Cluster", patch(run, map[string]any{"spec": map[string]any{"clusterName": "another"}})},
		{"write its status", patch(run, map[string]any{"status": map[string]any{"phase": "Succeeded"}}, "status")},
		{"take the run from its Cluster", patch(run, map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b",
		}}}})},
		{"keep the run for ever", patch(run, map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/stay"}}})},
		{"delete the run", remove(run)},
		{"delete the policy", remove(policy)},
	}
}

// byPolicies are what nobody may have the engine do who may not do it themselves.
func byPolicies() []attempt {
	try := func(what, name string, step lifecyclev1.Step) attempt {
		step.Name = "step"
		return attempt{"have a policy " + what, create(&lifecyclev1.LifecyclePolicy{ObjectMeta: meta(namespace, name), Spec: lifecyclev1.LifecyclePolicySpec{
			Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.AfterControlPlaneInitialized, Steps: []lifecyclev1.Step{step}}},
		}})}
	}
	return []attempt{
		try("apply a Secret", "applies", lifecyclev1.Step{Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "Secret", Name: "database"}}}}),
		try("write Secrets of another namespace", "archives", lifecyclev1.Step{Export: &lifecyclev1.ExportStep{
			Namespace: elsewhere, Resources: []lifecyclev1.ExportResource{{APIVersion: "v1", Kind: "ConfigMap"}},
		}}),
	}
}

// approve is what a decider may do with the policy's verb.
func approve() attempt {
	run := &lifecyclev1.LifecycleRun{ObjectMeta: meta(namespace, runName)}
	return attempt{"approve", patch(run, map[string]any{"metadata": map[string]any{"annotations": map[string]any{lifecyclev1.ApproveAnnotation: "approve: because"}}})}
}

// may are the attempts that a persona may make: what makes the others prove something.
var may = map[string][]string{
	"the victim's own agent": {"read the Host", "forge facts", "forge a heartbeat"},
	"decider":                {"approve"},
	"operator of hosts":      {"read the Host", "list Hosts"},
	theEngine:                {"list Hosts"},
}

// TestTrust has everybody who has credentials try what is not theirs.
func TestTrust(t *testing.T) {
	w := newWorld(t)
	for _, p := range w.personas() {
		t.Run(p.name, func(t *testing.T) {
			w.checkRights(t, p)
			c := w.client(p.config)
			for _, attempts := range [][]attempt{onHosts(), w.onRuns(), byPolicies(), {approve()}} {
				for _, a := range attempts {
					w.judge(t, p, c, a)
				}
			}
		})
	}
	t.Run("nobody", w.nobody)
	t.Run("a smuggled host", w.smuggled)
	t.Run("a token that is used up", w.usedUp)
	t.Run("a host with keys of its own", w.rotated)
	t.Run("a host that is assigned", w.assigned)
	t.Run("the manager taken over", w.takenOver)
	t.Run("the lifecycle engine taken over", w.engineTakenOver)
}

// judge fails when an attempt succeeds that should not, or fails for another reason than
// that it is refused.
func (w *world) judge(t *testing.T, p persona, c client.Client, a attempt) {
	t.Helper()
	err := a.try(t.Context(), c)
	switch {
	case slices.Contains(may[p.name], a.name):
		if err != nil {
			t.Errorf("may not %s, so that others may not proves nothing: %v", a.name, err)
		}
	case err == nil:
		t.Errorf("could %s", a.name)
	case !refused(err):
		t.Errorf("%s: the refusal proves nothing: %v", a.name, err)
	}
}

// nobody has no credentials, as a pod that reaches the ports.
func (w *world) nobody(t *testing.T) {
	anonymous := w.client(rest.AnonymousClientConfig(w.Config))
	for _, attempts := range [][]attempt{onHosts(), w.onRuns(), byPolicies(), {approve()}} {
		for _, a := range attempts {
			w.judge(t, persona{name: "nobody"}, anonymous, a)
		}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // an adversary does not care who serves
	defer transport.CloseIdleConnections()
	pod := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	post := func(url string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		answer, err := pod.Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	hook := "https://" + w.hooks + "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterdelete/slipway"
	if status, err := post(hook); err == nil && status != http.StatusUnauthorized && status != http.StatusForbidden {
		t.Errorf("a hook without a certificate is answered with %d", status)
	} else if refusal := (*tls.CertificateVerificationError)(nil); errors.As(err, &refusal) {
		t.Errorf("the refusal proves nothing: %v", err)
	}
	if status, err := post("https://" + w.diagnostics + "/metrics"); err != nil || status != http.StatusUnauthorized && status != http.StatusForbidden {
		t.Errorf("metrics without a token: %d, %v", status, err)
	}
}
