package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// manager is the user of slipway-manager.
const manager = "system:serviceaccount:slipway-system:slipway-manager"

// installPolicies limits what agents write, who orders hosts, which certificates the manager approves and which
// Secrets it changes, and gives it its rights, as the release does.
func installPolicies() error {
	for _, file := range []string{"admission/agent_policy.yaml", "admission/host_policy.yaml", "admission/certificate_policy.yaml", "admission/token_policy.yaml", "admission/hand_over_policy.yaml", "admission/log_policy.yaml"} {
		data, err := config.FS.ReadFile(file)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(strings.TrimPrefix(string(data), "---\n"), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
				return err
			}
			if err := env.Client.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	return env.Grant(ctx, manager, config.FS, "rbac/role.yaml", "rbac/secrets_role.yaml")
}

func as(t *testing.T, name string) client.Client {
	t.Helper()
	c, err := client.New(env.As(name), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// keeper makes a user with verbs on the Hosts of a namespace.
func keeper(t *testing.T, namespace, name string, verbs ...string) client.Client {
	t.Helper()
	env.GrantIn(t, name, namespace, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, Verbs: verbs})
	return as(t, name)
}

// claimed is a host at the beginning of its bootstrap.
func claimed(namespace string) *infrav1.Host {
	return &infrav1.Host{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-"},
		Spec: infrav1.HostSpec{
			HostID: "id", ClaimGeneration: 1, ClearedGeneration: ptr.To[int64](0),
			Claim:   &infrav1.HostClaim{MachineName: "m", ClusterName: "c1", ClaimID: "claim"},
			Desired: &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "op", BootstrapSecretName: "data"},
			Agent:   &infrav1.HostAgentSpec{Version: "v0.2.0", ReleaseDigest: "sha256:" + strings.Repeat("0", 64)},
		},
	}
}

// forbidden says whether a user was refused a field for want of the verb order.
func forbidden(err error, field, user string) error {
	if want := fmt.Sprintf("%s: %q may not order hosts.infrastructure.slipway.dev in namespace ", field, user); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("want %q, got %w", want, err)
	}
	return nil
}

// awaitHostPolicy waits until the API server has learned of the policy and of a user's
// rights.
func awaitHostPolicy(t *testing.T, c client.Client, namespace, user string) {
	t.Helper()
	poll.Until(t, "the policy of Hosts holds", func() error {
		return forbidden(c.Create(t.Context(), claimed(namespace), client.DryRunAll), "spec.hostID", user)
	})
}

// TestMaintenanceOrdersNothing: whoever may update Hosts has no Secret of the namespace
// read by an agent, and takes no host from its machine.
func TestMaintenanceOrdersNothing(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	mallory := keeper(t, namespace, "mallory", "get", "create", "update", "patch")
	awaitHostPolicy(t, mallory, namespace, "mallory")
	for name, tc := range map[string]struct {
		change func(*infrav1.HostSpec)
		field  string
	}{
		"another Secret":        {func(s *infrav1.HostSpec) { s.Desired.BootstrapSecretName = "token" }, "spec.desired"},
		"another operation":     {func(s *infrav1.HostSpec) { s.Desired.Phase = infrav1.HostDesiredReset }, "spec.desired"},
		"no order":              {func(s *infrav1.HostSpec) { s.Desired = nil }, "spec.desired"},
		"no claim":              {func(s *infrav1.HostSpec) { s.Claim = nil }, "spec.claim"},
		"the next claim":        {func(s *infrav1.HostSpec) { s.ClaimGeneration++ }, "spec.claimGeneration"},
		"clean for ever":        {func(s *infrav1.HostSpec) { s.ClearedGeneration = ptr.To[int64](99) }, "spec.clearedGeneration"},
		"no word":               {func(s *infrav1.HostSpec) { s.ClearedGeneration = nil }, "spec.clearedGeneration"},
		"an agent of before":    {func(s *infrav1.HostSpec) { s.Agent.Version = "v0.1.0" }, "spec.agent"},
		"no other agent":        {func(s *infrav1.HostSpec) { s.Agent = nil }, "spec.agent"},
		"with what they may do": {func(s *infrav1.HostSpec) { s.Unschedulable, s.Claim = ptr.To(true), nil }, "spec.claim"},
	} {
		t.Run(name, func(t *testing.T) {
			h := claimed(namespace)
			if err := as(t, manager).Create(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			before := h.DeepCopy()
			tc.change(&h.Spec)
			if err := forbidden(mallory.Patch(t.Context(), h.DeepCopy(), client.MergeFrom(before)), tc.field, "mallory"); err != nil {
				t.Error(err)
			}
			if err := forbidden(mallory.Update(t.Context(), h.DeepCopy()), tc.field, "mallory"); err != nil {
				t.Error(err)
			}
			if err := as(t, manager).Update(t.Context(), h); err != nil {
				t.Errorf("by the manager: %v", err)
			}
		})
	}
	t.Run("the identity of a host", func(t *testing.T) {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-"}}
		if err := mallory.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		h.Spec.HostID = "mine"
		if err := forbidden(mallory.Update(t.Context(), h), "spec.hostID", "mallory"); err != nil {
			t.Error(err)
		}
	})
	t.Run("the word after a restore", func(t *testing.T) {
		const field = "metadata.annotations[" + infrav1.RestoredAnnotation + "]"
		h := claimed(namespace)
		if err := as(t, manager).Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		said := h.DeepCopy()
		said.Annotations = map[string]string{infrav1.RestoredAnnotation: string(h.UID)}
		if err := forbidden(mallory.Patch(t.Context(), said.DeepCopy(), client.MergeFrom(h)), field, "mallory"); err != nil {
			t.Error(err)
		}
		made := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-", Annotations: map[string]string{infrav1.RestoredAnnotation: "uid"}}}
		if err := forbidden(mallory.Create(t.Context(), made), field, "mallory"); err != nil {
			t.Error(err)
		}
		// An administrator has all verbs, and the manager takes it off.
		if err := env.Client.Patch(t.Context(), said, client.MergeFrom(h)); err != nil {
			t.Fatal(err)
		}
		unsaid := said.DeepCopy()
		unsaid.Annotations = nil
		if err := forbidden(mallory.Update(t.Context(), unsaid.DeepCopy()), field, "mallory"); err != nil {
			t.Error(err)
		}
		said.Labels = map[string]string{"disk": "ssd"}
		if err := mallory.Update(t.Context(), said); err != nil {
			t.Errorf("it keeps maintenance from a Host: %v", err)
		}
		unsaid.ResourceVersion = said.ResourceVersion
		if err := as(t, manager).Update(t.Context(), unsaid); err != nil {
			t.Errorf("by the manager: %v", err)
		}
	})
	t.Run("by the earlier version", func(t *testing.T) {
		h := claimed(namespace)
		if err := as(t, manager).Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		old := &v1beta1.Host{}
		if err := mallory.Get(t.Context(), client.ObjectKeyFromObject(h), old); err != nil {
			t.Fatal(err)
		}
		old.Spec.Unschedulable = ptr.To(true)
		if err := mallory.Update(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		old.Spec.Desired.BootstrapSecretName = "token"
		if err := forbidden(mallory.Update(t.Context(), old), "spec.desired", "mallory"); err != nil {
			t.Error(err)
		}
	})
}

// TestAForgedHostIsRefused: a Host that is created with a claim would be one that a
// machine took.
func TestAForgedHostIsRefused(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	mallory := keeper(t, namespace, "forger", "get", "create")
	awaitHostPolicy(t, mallory, namespace, "forger")
	whole := claimed(namespace).Spec
	for field, spec := range map[string]infrav1.HostSpec{
		"spec.hostID":            {HostID: whole.HostID},
		"spec.claim":             {Claim: whole.Claim},
		"spec.claimGeneration":   {ClaimGeneration: whole.ClaimGeneration},
		"spec.clearedGeneration": {ClearedGeneration: whole.ClearedGeneration},
		"spec.desired":           {Desired: whole.Desired},
		"spec.agent":             {Agent: whole.Agent},
	} {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-"}, Spec: spec}
		if err := forbidden(mallory.Create(t.Context(), h), field, "forger"); err != nil {
			t.Error(err)
		}
	}
}

// TestMaintenanceNeedsNoOrder: who may update Hosts does what docs/hosts.md tells to do.
func TestMaintenanceNeedsNoOrder(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	olga := keeper(t, namespace, "olga", "get", "create", "update", "patch", "delete")
	awaitHostPolicy(t, olga, namespace, "olga")
	h := claimed(namespace)
	if err := as(t, manager).Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*infrav1.Host){
		"unschedulable":    func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) },
		"evacuate":         func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) },
		"failure domain":   func(h *infrav1.Host) { h.Spec.FailureDomain = "rack-2" },
		"reset policy":     func(h *infrav1.Host) { h.Spec.ResetPolicy = infrav1.ResetPolicyFull },
		"label":            func(h *infrav1.Host) { h.Labels = map[string]string{"disk": "ssd"} },
		"clear quarantine": func(h *infrav1.Host) { h.Annotations = map[string]string{infrav1.ClearQuarantineAnnotation: "true"} },
		"release orphan":   func(h *infrav1.Host) { h.Annotations = map[string]string{infrav1.ReleaseOrphanAnnotation: "claim"} },
		"nothing":          func(*infrav1.Host) {},
	} {
		before := h.DeepCopy()
		change(h)
		if err := olga.Patch(t.Context(), h, client.MergeFrom(before)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := olga.Delete(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// TestAMovedHostKeepsItsClaim creates and changes Hosts as clusterctl move and a restored
// backup do: by an administrator or somebody with the verb order.
func TestAMovedHostKeepsItsClaim(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	mallory := keeper(t, namespace, "stranger", "create")
	awaitHostPolicy(t, mallory, namespace, "stranger")
	for who, c := range map[string]client.Client{
		"administrator": env.Client, "mover": keeper(t, namespace, "mover", "get", "create", "update", "order"), "manager": as(t, manager),
	} {
		h := claimed(namespace)
		poll.Until(t, "a Host is created by the "+who, func() error { return c.Create(t.Context(), h) })
		if h.Spec.Claim == nil || h.Spec.Desired == nil || h.Spec.HostID != "id" {
			t.Errorf("by the %s: %+v", who, h.Spec)
		}
		h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u"}}
		h.Spec.Desired.BootstrapSecretName = ""
		if err := c.Update(t.Context(), h); err != nil {
			t.Errorf("by the %s: %v", who, err)
		}
	}
}
