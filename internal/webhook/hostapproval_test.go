package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestWhoMaintainsHostsApprovesNone: approval takes a verb of its own, in each direction
// and from the beginning.
func TestWhoMaintainsHostsApprovesNone(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	verbs := []string{"get", "create", "update", "patch", "delete"}
	olga, anna, mover := keeper(t, namespace, "keeper", verbs...), keeper(t, namespace, "approver", append(verbs, "approve")...), keeper(t, namespace, "orderer", append(verbs, "order")...)
	awaitHostPolicy(t, olga, namespace, "keeper")
	awaitHostPolicy(t, anna, namespace, "approver")
	poll.Until(t, "the mover has rights", func() error { return mover.Create(t.Context(), claimed(namespace), client.DryRunAll) })
	refused := func(err error) error {
		if want := `spec.approval: "keeper" may not approve hosts.infrastructure.slipway.dev in namespace `; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("want %q, got %w", want, err)
		}
		return nil
	}
	const pending, approved, denied = infrav1.HostApprovalPending, infrav1.HostApprovalApproved, infrav1.HostApprovalDenied
	for _, change := range [][2]infrav1.HostApproval{{pending, approved}, {denied, approved}, {approved, denied}, {"", pending}, {approved, ""}} {
		t.Run(fmt.Sprintf("%q to %q", change[0], change[1]), func(t *testing.T) {
			h := claimed(namespace)
			h.Spec.Approval = change[0]
			if err := as(t, manager).Create(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			before := h.DeepCopy()
			h.Spec.Approval = change[1]
			if err := refused(olga.Patch(t.Context(), h.DeepCopy(), client.MergeFrom(before))); err != nil {
				t.Error(err)
			}
			old := &v1beta1.Host{}
			if err := olga.Get(t.Context(), client.ObjectKeyFromObject(h), old); err != nil {
				t.Fatal(err)
			}
			old.Spec.Approval = change[1]
			if err := refused(olga.Update(t.Context(), old)); err != nil {
				t.Errorf("by the earlier version: %v", err)
			}
			before = before.DeepCopy()
			before.Spec.Unschedulable = ptr.To(true)
			if err := olga.Update(t.Context(), before); err != nil {
				t.Errorf("something else: %v", err)
			}
			for who, c := range map[string]client.Client{"approver": anna, "mover": mover, "manager": as(t, manager)} {
				if err := c.Update(t.Context(), withApproval(before, change[1]), client.DryRunAll); err != nil {
					t.Errorf("by the %s: %v", who, err)
				}
			}
		})
	}
	forged := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-"}, Spec: infrav1.HostSpec{Approval: approved}}
	if err := refused(olga.Create(t.Context(), forged)); err != nil {
		t.Error(err)
	}
	if err := anna.Create(t.Context(), forged); err != nil {
		t.Errorf("in advance: %v", err)
	}
	order := claimed(namespace)
	if err := forbidden(anna.Create(t.Context(), order), "spec.hostID", "approver"); err != nil {
		t.Errorf("who approves orders nothing: %v", err)
	}
}

func withApproval(h *infrav1.Host, approval infrav1.HostApproval) *infrav1.Host {
	h = h.DeepCopy()
	h.Spec.Approval = approval
	return h
}

// TestAnApprovalIsNotLost: a manager of an earlier version, which writes whole Hosts
// without the field, cannot claim a host that waits.
func TestAnApprovalIsNotLost(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	for approval, kept := range map[infrav1.HostApproval]bool{
		infrav1.HostApprovalPending: true, infrav1.HostApprovalDenied: true, infrav1.HostApprovalApproved: false,
	} {
		meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-"}
		h := &infrav1.Host{ObjectMeta: meta, Spec: infrav1.HostSpec{Approval: approval, FailureDomain: "rack-1"}}
		if err := env.Client.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		empty := &infrav1.Host{ObjectMeta: h.ObjectMeta}
		for what, without := range map[string]*infrav1.Host{"removed": withApproval(h, ""), "removed with the spec": empty} {
			if err := env.Client.Update(t.Context(), without, client.DryRunAll); kept != apierrors.IsInvalid(err) || (!kept && err != nil) {
				t.Errorf("%s is %s: %v", approval, what, err)
			}
		}
	}
}

func TestHostApprovalPolicy(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	for name, tc := range map[string]struct {
		name string
		spec infrav1.HostApprovalPolicySpec
		want string
	}{
		"auto":             {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalAuto}, ""},
		"manual":           {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalManual}, ""},
		"match":            {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalMatch, Hosts: []infrav1.HostMatch{{Name: "h1"}, {MachineID: "m"}, {HostID: "k"}}}, ""},
		"another name":     {"mine", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalAuto}, "one HostApprovalPolicy, named default"},
		"no mode":          {"default", infrav1.HostApprovalPolicySpec{}, "spec"},
		"unknown mode":     {"default", infrav1.HostApprovalPolicySpec{Mode: "Guess"}, "spec.mode"},
		"match of nobody":  {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalMatch}, "spec.hosts is for mode Match"},
		"manual of one":    {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalManual, Hosts: []infrav1.HostMatch{{Name: "h1"}}}, "spec.hosts is for mode Match"},
		"match of nothing": {"default", infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalMatch, Hosts: []infrav1.HostMatch{{}}}, "spec.hosts[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &infrav1.HostApprovalPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tc.name}, Spec: tc.spec}
			err := env.Client.Create(t.Context(), policy, client.DryRunAll)
			if (tc.want == "") != (err == nil) || err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}
