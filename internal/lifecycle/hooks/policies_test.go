package hooks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// fakeHandler is a Handler whose API server has a Cluster and policies that ask for an
// approval before it is created.
func fakeHandler(t *testing.T, policies ...*lifecyclev1.LifecyclePolicy) (*Handler, event) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), lifecyclev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "u"}}
	objects := []client.Object{cluster}
	for _, p := range policies {
		p.Namespace = "n"
		p.Spec.Hooks = []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterCreate, Steps: []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}}}}}
		objects = append(objects, p)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &Handler{Client: c, APIReader: c, Clock: testclock.NewFakePassiveClock(time.Now())}, event{hook: lifecyclev1.BeforeClusterCreate, cluster: cluster}
}

func policyNamed(name, condition string) *lifecyclev1.LifecyclePolicy {
	return &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: lifecyclev1.LifecyclePolicySpec{MatchCondition: condition}}
}

// TestFailingConditionStopsNoOtherPolicy holds that a policy whose matchCondition fails holds the
// Cluster back with an error, and that the others get their runs all the same.
func TestFailingConditionStopsNoOtherPolicy(t *testing.T) {
	h, e := fakeHandler(t, policyNamed("a", ""), policyNamed("b", "cluster.spec.nothing == 1"), policyNamed("c", ""), policyNamed("d", "cluster.spec.nothing == 2"))
	err := h.answer(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "LifecyclePolicy b:") || !strings.Contains(err.Error(), "LifecyclePolicy d:") {
		t.Errorf("error %v, want one about the conditions of b and d", err)
	}
	runs := &lifecyclev1.LifecycleRunList{}
	if err := h.Client.List(t.Context(), runs); err != nil {
		t.Fatal(err)
	}
	var of []string
	for i := range runs.Items {
		of = append(of, runs.Items[i].Spec.PolicyName)
	}
	if strings.Join(of, " ") != "a c" {
		t.Errorf("policies %q have a run, want a and c", of)
	}
}

// TestMessagesOfAllPoliciesFitAnAnswer holds that the messages of any number of policies fit a
// condition together, and that each is there.
func TestMessagesOfAllPoliciesFitAnAnswer(t *testing.T) {
	for _, n := range []int{1, 2, 40, 20000} {
		var v verdict
		var errs failures
		for i := range n {
			message := fmt.Sprintf("LifecyclePolicy p%d: %s", i, strings.Repeat("ü", 4000))
			v = v.and(verdict{after: time.Second, messages: []string{message}})
			errs = append(errs, errors.New(message))
		}
		for _, joined := range []string{join(v.messages, "; "), errs.Error()} {
			if len(joined) > maxMessages+len(ellipsis) || !strings.HasSuffix(joined, ellipsis) {
				t.Errorf("%d policies have %d bytes: %.80q", n, len(joined), joined)
			}
			if n < 100 && strings.Count(joined, "LifecyclePolicy p") != n {
				t.Errorf("of %d policies %d are named", n, strings.Count(joined, "LifecyclePolicy p"))
			}
		}
	}
	if got := join([]string{"one", "two"}, "; "); got != "one; two" {
		t.Errorf("short messages are %q", got)
	}
}
