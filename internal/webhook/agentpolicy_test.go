package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// An agent changes its heartbeat, its two annotations and its report. Whatever else is in the two
// objects that RBAC lets it update stays as slipway-manager and the garbage collector have it.
func TestAgentsWriteOnlyTheirReports(t *testing.T) {
	testenv.Skip(t)
	const status = "status"
	namespace := env.Namespace(t)
	user := infrav1.AgentUser(namespace, "host-1", "id")
	env.GrantIn(t, user, namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "patch", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts", "hosts/status"}, Verbs: []string{"get", "patch", "update"}},
	)
	scheme := runtime.NewScheme()
	if err := errors.Join(coordinationv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	as := func(config *rest.Config) client.Client {
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	agent, administrator := as(env.As(user, infrav1.AgentGroup)), as(env.Config)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "host-1"}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system", UID: "5f0f8e0c-0000-4000-8000-000000000000"}
	stored := &coordinationv1.Lease{ObjectMeta: meta}
	stored.Labels, stored.OwnerReferences = map[string]string{infrav1.HostLabel: "host-1"}, []metav1.OwnerReference{owner}
	stored.Annotations = map[string]string{infrav1.HostBundlesAnnotation: "https://bundles", infrav1.HandOverSignerAnnotation: "key"}
	managed := &infrav1.Host{ObjectMeta: meta}
	for _, o := range []client.Object{stored, managed} {
		if err := administrator.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	managed.Status.Phase = infrav1.HostPhaseEnrolling
	managed.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", LastTransitionTime: metav1.Now()}}
	if err := administrator.Status().Update(t.Context(), managed); err != nil {
		t.Fatal(err)
	}

	type fields = map[string]any
	annotated := func(key string, value any) fields {
		return fields{"metadata": fields{"annotations": fields{key: value}}}
	}
	condition := func(kind string) fields {
		return fields{"status": fields{"conditions": []any{fields{
			"type": kind, "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}}
	}
	report := host.HandOverReport{Revision: strings.Repeat("0", 16), Waiting: strings.Repeat("word ", 1000)}.String()
	onLease, onStatus := []string{}, []string{status}
	cases := map[string]struct {
		change      fields
		subresource []string
		// refused is how the answer begins that names the field; empty when the agent may.
		refused string
	}{
		"heartbeat": {fields{"spec": fields{
			"renewTime": "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 40, "holderIdentity": strings.Repeat("0", 64),
		}}, onLease, ""},
		"longest duration":   {fields{"spec": fields{"leaseDurationSeconds": 3600}}, onLease, ""},
		"long duration":      {fields{"spec": fields{"leaseDurationSeconds": 1 << 30}}, onLease, "spec.leaseDurationSeconds: "},
		"certificate":        {annotated(infrav1.CertificateExpirationAnnotation, "2026-01-01T00:00:00Z"), onLease, ""},
		"hand-over":          {annotated(infrav1.HandOverReportAnnotation, report), onLease, ""},
		"refused report":     {annotated(infrav1.ReportRefusedAnnotation, "status.hardware: "+strings.Repeat("x", 495)), onLease, ""},
		"no hand-over":       {annotated(infrav1.HandOverReportAnnotation, nil), onLease, ""},
		"finalizer":          {fields{"metadata": fields{"finalizers": []any{"example.com/stay"}}}, onLease, "metadata.finalizers: "},
		"another owner":      {fields{"metadata": fields{"ownerReferences": []any{owner, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}}}}, onLease, "metadata.ownerReferences: "},
		"no owner":           {fields{"metadata": fields{"ownerReferences": nil}}, onLease, "metadata.ownerReferences: "},
		"label":              {fields{"metadata": fields{"labels": fields{"clusterctl.cluster.x-k8s.io/move": ""}}}, onLease, "metadata.labels: "},
		"no labels":          {fields{"metadata": fields{"labels": nil}}, onLease, "metadata.labels: "},
		"bundles":            {annotated(infrav1.HostBundlesAnnotation, "https://theirs"), onLease, "metadata.annotations: an agent may change only "},
		"no bundles":         {annotated(infrav1.HostBundlesAnnotation, nil), onLease, "metadata.annotations: an agent may change only "},
		"interval":           {annotated(infrav1.HeartbeatIntervalAnnotation, "9m"), onLease, "metadata.annotations: an agent may change only "},
		"signer":             {annotated(infrav1.HandOverSignerAnnotation, "theirs"), onLease, "metadata.annotations: an agent may change only "},
		"unknown annotation": {annotated("example.com/anything", ""), onLease, "metadata.annotations: an agent may change only "},
		"long annotation":    {annotated(infrav1.HandOverReportAnnotation, strings.Repeat("x", 513)), onLease, "metadata.annotations: infrastructure.slipway.dev/certificate-expiration"},
		"long certificate":   {annotated(infrav1.CertificateExpirationAnnotation, strings.Repeat("x", 513)), onLease, "metadata.annotations: infrastructure.slipway.dev/certificate-expiration"},
		"long holder":        {fields{"spec": fields{"holderIdentity": strings.Repeat("x", 254)}}, onLease, "spec.holderIdentity: "},

		"report":            {fields{"status": fields{"bootID": "boot", "inventory": fields{"machineID": "m"}}}, onStatus, ""},
		"phase":             {fields{"status": fields{"phase": "Available"}}, onStatus, "status.phase: "},
		"no phase":          {fields{"status": fields{"phase": nil}}, onStatus, "status.phase: "},
		"ready":             {condition("Ready"), onStatus, "status.conditions: "},
		"unknown condition": {condition("Theirs"), onStatus, "status.conditions: "},
		"no conditions":     {fields{"status": fields{"conditions": nil}}, onStatus, "status.conditions: "},
		"empty status":      {fields{"status": nil}, onStatus, "status.phase: "},
	}
	try := func(name string, c client.Client, options ...client.PatchOption) error {
		tc := cases[name]
		data, err := json.Marshal(tc.change)
		if err != nil {
			t.Fatal(err)
		}
		if len(tc.subresource) == 0 {
			return c.Patch(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, client.RawPatch(types.MergePatchType, data), options...)
		}
		sub := make([]client.SubResourcePatchOption, 0, len(options))
		for _, o := range options {
			sub = append(sub, o.(client.SubResourcePatchOption)) //nolint:forcetypeassert // DryRunAll is both
		}
		return c.SubResource(status).Patch(t.Context(), &infrav1.Host{ObjectMeta: meta}, client.RawPatch(types.MergePatchType, data), sub...)
	}
	judge := func(name string, err error) error {
		want := cases[name].refused
		switch {
		case want == "" && err != nil:
			return fmt.Errorf("an agent needs it: %w", err)
		case want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: "+want)):
			return fmt.Errorf("want a refusal of %q, got: %w", want, err)
		}
		return nil
	}
	// The API server learns of its policies from a watch.
	for _, first := range []string{"label", "phase"} {
		poll.Until(t, "the policy holds", func() error { return judge(first, try(first, agent, client.DryRunAll)) })
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := judge(name, try(name, agent, client.DryRunAll)); err != nil {
				t.Error(err)
			}
			// Whoever is no agent and has the rights may.
			if err := try(name, administrator, client.DryRunAll); err != nil && tc.refused != "" {
				t.Errorf("by an administrator: %v", err)
			}
		})
	}

	t.Run("metadata and spec in a report", func(t *testing.T) {
		change := fields{"metadata": fields{"labels": fields{"a": "b"}, "finalizers": []any{"example.com/stay"}, "annotations": fields{"a": "b"}},
			"spec": fields{"unschedulable": true}, "status": fields{"bootID": "boot-2"}}
		data, err := json.Marshal(change)
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.SubResource(status).Patch(t.Context(), &infrav1.Host{ObjectMeta: meta}, client.RawPatch(types.MergePatchType, data)); err != nil {
			t.Fatal(err)
		}
		after := &infrav1.Host{}
		if err := administrator.Get(t.Context(), client.ObjectKeyFromObject(managed), after); err != nil {
			t.Fatal(err)
		}
		if after.Status.BootID != "boot-2" {
			t.Errorf("the report is lost: %+v", after.Status)
		}
		if !maps.Equal(after.Labels, managed.Labels) || len(after.Finalizers) > 0 || len(after.Annotations) > 0 || !reflect.DeepEqual(after.Spec, managed.Spec) {
			t.Errorf("a report of the status changed %+v and %+v", after.ObjectMeta, after.Spec)
		}
	})
	t.Run("applied as the agent does", func(t *testing.T) {
		report := fields{"apiVersion": infrav1.GroupVersion.String(), "kind": "Host", "metadata": fields{"namespace": namespace, "name": "host-1"}, "status": fields{"bootID": "boot-3"}}
		data, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		err = agent.SubResource(status).Patch(t.Context(), &infrav1.Host{ObjectMeta: meta}, client.RawPatch(types.ApplyPatchType, data),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "slipway-agent", Force: ptr.To(true)}})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("applied under ever new names", func(t *testing.T) {
		lease := fields{"apiVersion": coordinationv1.SchemeGroupVersion.String(), "kind": "Lease", "metadata": fields{"namespace": namespace, "name": "host-1"}, "spec": fields{"leaseDurationSeconds": 40}}
		report := fields{"apiVersion": infrav1.GroupVersion.String(), "kind": "Host", "metadata": fields{"namespace": namespace, "name": "host-1"}, "status": fields{"bootID": "boot-3"}}
		onLease, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		onStatus, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		for what, apply := range map[string]func(manager client.FieldOwner) error{
			"Lease": func(manager client.FieldOwner) error {
				return agent.Patch(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, client.RawPatch(types.ApplyPatchType, onLease), manager, client.ForceOwnership)
			},
			"status": func(manager client.FieldOwner) error {
				return agent.SubResource(status).Patch(t.Context(), &infrav1.Host{ObjectMeta: meta}, client.RawPatch(types.ApplyPatchType, onStatus), manager, client.ForceOwnership)
			},
		} {
			var refused error
			for i := 0; i < 40 && refused == nil; i++ {
				refused = apply(client.FieldOwner(fmt.Sprint("name-", i)))
			}
			if !apierrors.IsForbidden(refused) || !strings.Contains(refused.Error(), "metadata.managedFields: ") {
				t.Errorf("%s: want a refusal, got %v", what, refused)
			}
		}
	})
	t.Run("another Lease", func(t *testing.T) {
		made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "another", Annotations: map[string]string{infrav1.HostBundlesAnnotation: "https://theirs"}}}
		if err := agent.Create(t.Context(), made); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "metadata.annotations: ") {
			t.Errorf("want a refusal, got %v", err)
		}
	})
}
