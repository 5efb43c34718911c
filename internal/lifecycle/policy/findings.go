package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// findRights finds rights that the steps need and the engine lacks. Without it nothing
// they refer to can be looked for either.
func (r *Reconciler) findRights(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	missing, err := r.Rights.Missing(ctx, step.Needed(s.policy).Engine)
	if missing != nil {
		s.fault = &fault{lifecyclev1.RightsMissingReason, missing.Error()}
	}
	return err
}

// findReferences looks for what the steps refer to. It reads metadata only: contents
// are the executors' matter.
func (r *Reconciler) findReferences(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	var missing []string
	for _, ref := range step.Needed(s.policy).Reads {
		name := ref.Kind + " " + ref.Name
		if slices.Contains(missing, name) {
			continue
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.policy.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
		} else if err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
	}
	if len(missing) > 0 {
		s.fault = &fault{lifecyclev1.ReferenceNotFoundReason, fmt.Sprintf(
			"missing in namespace %s: %s; create it, or correct the policy", s.policy.Namespace, strings.Join(missing, ", "))}
	}
	return nil
}

// horizon is how far ahead windows are compared, from when both have opened once: windows
// that overlap less than once a year block clusters for longer than intended.
const horizon = 366 * 24 * time.Hour

// findConflicts looks for windows that are never open at the same time. A hook passes
// only while all windows are open, so such policies block their clusters for ever.
func (r *Reconciler) findConflicts(ctx context.Context, s *scope) error {
	if s.fault != nil || s.policy.Spec.Mode == lifecyclev1.ModeAudit {
		return nil
	}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := r.Client.List(ctx, policies, client.InNamespace(s.policy.Namespace)); err != nil {
		return fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	now := r.Clock.Now()
	for i := range policies.Items {
		other := &policies.Items[i]
		if message := Conflict(s.policy, other, s.clusters, now); message != "" {
			s.fault = &fault{lifecyclev1.PolicyConflictReason, message}
			return nil
		}
	}
	return nil
}

// Conflict tells of a hook at which two policies, which may be one and the same, have
// windows that never overlap, if one of the clusters is selected by both, or there are
// none yet. It is empty when there is no such hook. Policies that cannot be read
// conflict with nothing.
func Conflict(a, b *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster, now time.Time) string {
	if b.Spec.Mode == lifecyclev1.ModeAudit || !b.DeletionTimestamp.IsZero() || !meet(a, b, clusters) {
		return ""
	}
	for i := range a.Spec.Hooks {
		hook := a.Spec.Hooks[i].Hook
		for _, one := range windows(a.Spec.Hooks[i].Steps) {
			for _, another := range windows(b.Steps(hook)) {
				if !step.Overlap(one.window, another.window, now, horizon) {
					return fmt.Sprintf("%s: the window of step %s is never open at the same time as that of step %s of LifecyclePolicy %s, so the hook never passes; change one of them",
						hook, one.step, another.step, b.Name)
				}
			}
		}
	}
	return ""
}

type namedWindow struct {
	step   string
	window *step.Window
}

func windows(steps []lifecyclev1.Step) []namedWindow {
	var found []namedWindow
	for i := range steps {
		if steps[i].Window == nil {
			continue
		}
		if window, err := step.ParseWindow(*steps[i].Window); err == nil {
			found = append(found, namedWindow{steps[i].Name, window})
		}
	}
	return found
}

// meet says whether two policies select a cluster in common, as far as labels tell.
func meet(a, b *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) bool {
	if a.Name == b.Name || len(clusters) == 0 {
		return true
	}
	for i := range clusters {
		selectedByA, errA := expression.Selects(a, &clusters[i])
		selectedByB, errB := expression.Selects(b, &clusters[i])
		if errA == nil && errB == nil && selectedByA && selectedByB {
			return true
		}
	}
	return false
}

// maxNamed bounds how many Clusters a message names.
const maxNamed = 10

// WithoutTopology tells of the Clusters that a policy is about and that are held back at
// not all of its hooks, as they have no topology; empty when there are none. One of which
// that cannot be known counts.
func WithoutTopology(ctx context.Context, matcher *expression.Matcher, p *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) string {
	var names []string
	for i := range clusters {
		cluster := &clusters[i]
		if !slices.ContainsFunc(p.Spec.Hooks, func(h lifecyclev1.HookPolicy) bool { return !plan.Enforces(p, h.Hook, cluster) }) {
			continue
		}
		if mismatch, err := matcher.Match(ctx, p, cluster); err != nil || mismatch == expression.NoMismatch {
			names = append(names, cluster.Name)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > maxNamed:
		names = append(names[:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	held, remedy := "nothing", "make them of a ClusterClass, or select others"
	switch {
	case !slices.ContainsFunc(p.Spec.Hooks, func(h lifecyclev1.HookPolicy) bool { return h.Hook.WithoutTopology() }):
	case p.Spec.Enforcement == lifecyclev1.EnforcementAll:
		held = "nothing but creation and deletion"
	default:
		remedy += ", or set spec.enforcement to All, which holds back creation and deletion"
	}
	return fmt.Sprintf("Cluster API calls no hooks for Clusters without spec.topology, so the policy holds %s back of %s; %s", held, strings.Join(names, ", "), remedy)
}

// NotEnabled tells what is missing for the API server to ask about Clusters without a
// topology in the namespace of a policy that wants them held back; empty when nothing is.
func NotEnabled(ctx context.Context, reader client.Reader, p *lifecyclev1.LifecyclePolicy) (string, error) {
	if p.Spec.Enforcement != lifecyclev1.EnforcementAll {
		return "", nil
	}
	enabled, err := rights.Enforced(ctx, reader, p.Namespace)
	if err != nil || enabled {
		return "", err
	}
	return fmt.Sprintf("spec.enforcement: Clusters without spec.topology are not held back, since the API server asks about those of labelled namespaces only: kubectl label namespace %s %s=%s",
		p.Namespace, lifecyclev1.EnforcementLabel, lifecyclev1.EnforcementAll), nil
}

// findTopologies says whether somebody asks about all that the policy is to hold back.
func (r *Reconciler) findTopologies(ctx context.Context, s *scope) error {
	effective := metav1.Condition{
		Type: lifecyclev1.EffectiveCondition, Status: metav1.ConditionTrue,
		Reason: lifecyclev1.HooksCalledReason, ObservedGeneration: s.policy.Generation,
	}
	missing, err := NotEnabled(ctx, r.APIReader, s.policy)
	switch {
	case apierrors.IsForbidden(err):
		effective.Status, effective.Reason, effective.Message = metav1.ConditionUnknown, lifecyclev1.EnforcementUnknownReason, err.Error()
	case err != nil:
		return err
	case missing != "":
		effective.Status, effective.Reason, effective.Message = metav1.ConditionFalse, lifecyclev1.EnforcementNotEnabledReason, missing
	default:
		if message := WithoutTopology(ctx, &r.matcher, s.policy, s.clusters); message != "" {
			effective.Status, effective.Reason, effective.Message = metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, message
		}
	}
	s.effective = effective
	return ctx.Err()
}
