package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

// establishing is how soon CustomResourceDefinitions are looked at again.
const establishing = time.Second

// maxProblems bounds how many objects an error is about.
const maxProblems = 10

// pinning is how soon manifests are looked at again that came late, or after a retry.
const pinning = time.Second

// applyKind is the kind that applies manifests from ConfigMaps and Secrets of the
// policy's namespace to the workload cluster by server-side apply.
//
//	sources ──fetch──> contents, which the run has pinned ──parse──> objects, in their order
//	objects: Namespaces and CustomResourceDefinitions, wait until established, the rest
type applyKind struct{}

var _ = register(applyKind{})

// Name implements Kind.
func (applyKind) Name() string { return "apply" }

// Manual implements Kind.
func (applyKind) Manual() (done, workload string) {
	return "manifests from ConfigMaps or Secrets are applied, server-side", "yes"
}

// Is implements Kind.
func (applyKind) Is(s *lifecyclev1.Step) bool { return s.Apply != nil }

// Facts implements Kind.
func (applyKind) Facts(*lifecyclev1.Step) Facts {
	return Facts{Doing: "applies manifests", Approval: "", Limit: defaultLimit, Waits: false, FollowsCluster: false, Workload: "apply", Lasting: nil}
}

// Needs implements Kind. Whoever writes the policy must be able to read the Secrets that it
// sends elsewhere.
func (applyKind) Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs {
	needs := Needs{Reads: nil, Engine: kubeconfig(namespace), Author: nil}
	for i, source := range s.Apply.Sources {
		at := at.Child("apply", "sources").Index(i)
		needs.Reads = append(needs.Reads, Reference{at, source.Kind, source.Name})
		right := rights.Right{Namespace: namespace, Verb: "get", Resource: "configmaps", Name: source.Name}
		if source.Kind == "Secret" {
			right.Resource = "secrets"
			needs.Author = append(needs.Author, AuthorRight{at, right})
		}
		needs.Engine = append(needs.Engine, right)
	}
	return needs
}

// Validate implements Kind.
func (applyKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[lifecyclev1.ManifestSource]bool{}
	for i, source := range s.Apply.Sources {
		at := at.Child("apply", "sources").Index(i)
		errs = append(errs, matches(source.Name, validation.IsDNS1123Subdomain, at.Child("name"))...)
		if source.Key != "" {
			errs = append(errs, matches(source.Key, validation.IsConfigMapKey, at.Child("key"))...)
		}
		if seen[source] {
			errs = append(errs, field.Duplicate(at, source.Name))
		}
		seen[source] = true
	}
	return errs
}

// FieldManager returns the field manager under which a policy's manifests are
// applied: at most 128 characters, as the API server wants it.
func FieldManager(policy string) string {
	const prefix, longest = "slipway-lifecycle-", 128
	return prefix + Shorten(policy, longest-len(prefix))
}

// Execute implements Kind.
func (applyKind) Execute(ctx context.Context, in Input) (Result, error) {
	contents, err := fetchSources(ctx, in.Env.Management, in.Run.Namespace, in.Step.Apply.Sources)
	if err != nil {
		return Result{}, err
	}
	switch in.Run.Pin(in.Step.Name) {
	case digestOf(contents):
	case "":
		return Result{Message: "has the manifests pinned", After: pinning}, nil
	default:
		return Result{}, Terminal(errors.New("the manifests have changed since the run began"),
			"look at them, and retry the step to apply them as they are now")
	}
	objects, err := decodeSources(contents)
	if err != nil {
		return Result{}, err
	}
	target, err := in.Env.Workload.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return Result{}, err
	}
	a := &application{target: target, options: []client.ApplyOption{client.FieldOwner(FieldManager(in.Run.Spec.PolicyName))}}
	if ptr.Deref(in.Step.Apply.Force, false) {
		a.options = append(a.options, client.ForceOwnership)
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		a.options = append(a.options, client.DryRunAll)
		return a.dryRun(ctx, objects)
	}
	return a.run(ctx, objects)
}

// Pin implements Pinner.
func (applyKind) Pin(ctx context.Context, env *Env, run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) (string, error) {
	contents, err := fetchSources(ctx, env.Management, run.Namespace, s.Apply.Sources)
	if errors.Is(err, errMissingSource) || rights.IsMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return digestOf(contents), nil
}

// application is one attempt to apply objects.
type application struct {
	target  *workload.Cluster
	options []client.ApplyOption
}

func (a *application) run(ctx context.Context, objects []manifestObject) (Result, error) {
	first, rest := splitFirst(objects)
	if err := a.applyAll(ctx, first); err != nil {
		return Result{}, err
	}
	for _, o := range first {
		if established, err := a.established(ctx, o); err != nil || !established {
			return waitForCRD(o), err
		}
	}
	err := a.applyAll(ctx, rest)
	if kind, ok := unservedKind(err, first); ok {
		return waitForCRD(kind), nil
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Done: true, Message: fmt.Sprintf("applied %d objects", len(objects))}, nil
}

// dryRun tells what run would do, as far as that can be known without doing it: a
// dry run leaves no namespaces and kinds for others.
func (a *application) dryRun(ctx context.Context, objects []manifestObject) (Result, error) {
	first, rest := splitFirst(objects)
	if err := a.applyAll(ctx, first); err != nil {
		return Result{}, err
	}
	checked := first
	for _, o := range rest {
		missing, err := a.needs(ctx, o, first)
		if err != nil {
			return Result{}, err
		}
		if !missing {
			checked = append(checked, o)
		}
	}
	if err := a.applyAll(ctx, checked[len(first):]); err != nil {
		return Result{}, err
	}
	message := fmt.Sprintf("would apply %d objects", len(objects))
	if left := len(objects) - len(checked); left > 0 {
		message += fmt.Sprintf("; %d of them are not checked, because the manifests bring their namespace or kind", left)
	}
	return Result{Done: true, Message: message}, nil
}

// needs says whether an object cannot be checked before some of first is there.
func (a *application) needs(ctx context.Context, o manifestObject, first []manifestObject) (bool, error) {
	gvk := o.GroupVersionKind()
	if definedBy(gvk.GroupKind(), gvk.Version, first) != nil {
		_, err := a.target.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	for _, f := range first {
		if !f.isCRD() && f.GetName() == o.GetNamespace() {
			namespace := &unstructured.Unstructured{}
			namespace.SetGroupVersionKind(f.GroupVersionKind())
			err := a.target.Get(ctx, client.ObjectKey{Name: f.GetName()}, namespace)
			return err != nil, client.IgnoreNotFound(err)
		}
	}
	return false, nil
}

// applyAll applies objects in their order. It goes on after an object that the API
// server refuses, so that all problems are reported together.
func (a *application) applyAll(ctx context.Context, objects []manifestObject) error {
	var problems []error
	conflict := false
	for _, o := range objects {
		err := a.apply(ctx, o)
		if err == nil {
			continue
		}
		if workload.IsUnavailable(err) || ctx.Err() != nil {
			return err
		}
		conflict = conflict || isConflict(err)
		problems = append(problems, explainRefusal(o, err))
		if len(problems) == maxProblems {
			break
		}
	}
	err := errors.Join(problems...)
	if conflict {
		return Terminal(err, "remove the fields from the manifest, or set force: true to take them over, and retry the step")
	}
	return err
}

func (a *application) apply(ctx context.Context, o manifestObject) error {
	gvk := o.GroupVersionKind()
	mapping, err := a.target.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	// What the API server answers must not become part of the object.
	manifest := o.DeepCopy()
	switch {
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		manifest.SetNamespace("")
	case manifest.GetNamespace() == "":
		manifest.SetNamespace("default")
	}
	return a.target.Apply(ctx, client.ApplyConfigurationFromUnstructured(manifest), a.options...)
}

// established says whether the kind of a CustomResourceDefinition is served. Other
// objects are.
func (a *application) established(ctx context.Context, o manifestObject) (bool, error) {
	if !o.isCRD() {
		return true, nil
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(o.GroupVersionKind())
	if err := a.target.Get(ctx, client.ObjectKeyFromObject(o), crd); err != nil {
		return false, err
	}
	// They are null at first, which is no slice.
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" {
			return condition["status"] == "True", nil
		}
	}
	return false, nil
}

func waitForCRD(o manifestObject) Result {
	return Result{Message: fmt.Sprintf("waits until %s is established", o.name()), After: establishing}
}

// splitFirst returns the Namespaces and CustomResourceDefinitions, and the rest.
func splitFirst(objects []manifestObject) (first, rest []manifestObject) {
	for _, o := range objects {
		if o.first() {
			first = append(first, o)
		} else {
			rest = append(rest, o)
		}
	}
	return first, rest
}

// definedBy returns the CustomResourceDefinition of a kind; nil when there is none.
func definedBy(kind schema.GroupKind, version string, crds []manifestObject) *manifestObject {
	for i, o := range crds {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		if o.isCRD() && group == kind.Group && name == kind.Kind && hasVersion(o, version) {
			return &crds[i]
		}
	}
	return nil
}

func hasVersion(crd manifestObject, version string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		fields, ok := v.(map[string]any)
		return ok && fields["name"] == version
	})
}

// unservedKind returns the CustomResourceDefinition whose kind is established, but which
// discovery does not tell of yet.
func unservedKind(err error, crds []manifestObject) (manifestObject, bool) {
	var noMatch *meta.NoKindMatchError
	if !errors.As(err, &noMatch) {
		return manifestObject{}, false
	}
	for _, version := range noMatch.SearchedVersions {
		if crd := definedBy(noMatch.GroupKind, version, crds); crd != nil {
			return *crd, true
		}
	}
	return manifestObject{}, false
}

// isConflict says whether another field manager owns a field.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// explainRefusal tells which object of which document the API server refused, and why.
func explainRefusal(o manifestObject, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s (%s): the workload cluster has no kind %s of %s; is its CustomResourceDefinition missing? %w",
			o.name(), o.source, o.GetKind(), o.GetAPIVersion(), err)
	}
	if isConflict(err) {
		return fmt.Errorf("%s (%s): %s", o.name(), o.source, conflictsOf(err))
	}
	if o.source.secret() {
		// The API server quotes values that it refuses.
		return fmt.Errorf("%s (%s): %s", o.name(), o.source, fieldsOf(err))
	}
	return fmt.Errorf("%s (%s): %w", o.name(), o.source, err)
}

// causes returns the details of an answer of the API server.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

// conflictsOf tells the fields and their managers.
func conflictsOf(err error) string {
	var fields []string
	for _, cause := range causes(err) {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, fmt.Sprintf("field %s: %s", cause.Field, cause.Message))
		}
	}
	return strings.Join(fields, ", ")
}

// fieldsOf tells the reason and the fields of a refusal, without its text.
func fieldsOf(err error) string {
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "failed"
	}
	var fields []string
	for _, cause := range causes(err) {
		fields = append(fields, cause.Field)
	}
	if len(fields) > 0 {
		reason += " at " + strings.Join(fields, ", ")
	}
	return reason + " (the text may quote the Secret and is left out)"
}
