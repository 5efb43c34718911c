package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/internal/lifecycle/rights"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

const defaultArchiveBytes = 16 << 20

// maxArchives is how many archives are made at once: each is in memory as a whole.
const maxArchives = 10

// exportKind is the kind that saves objects of the workload cluster before it is deleted.
//
// The archive is a compressed tar of YAML files, in Secrets that nothing owns, so that they
// outlive the Cluster, in the policy's namespace or in one that it names:
//
//	<run>-<step>-<start>-<n>  its parts, each at most 900 KiB, under the key part
//	<run>-<step>-<start>      its index, under the key index.json: digest, size, parts
//
// The parts in their order, one after the other, are the tar.gz. The index is written
// last: an archive without one is not whole. The same objects give the same bytes.
type exportKind struct{}

var _ = register(exportKind{})

// Name implements Kind.
func (exportKind) Name() string { return "export" }

// Manual implements Kind.
func (exportKind) Manual() (done, workload string) {
	return "objects of the cluster are saved as an archive", "yes"
}

// Is implements Kind.
func (exportKind) Is(s *lifecyclev1.Step) bool { return s.Export != nil }

// Facts implements Kind.
func (exportKind) Facts(*lifecyclev1.Step) Facts {
	return Facts{Doing: "exports objects", Approval: "", Limit: defaultLimit, Waits: false, FollowsCluster: false, Workload: "export", Lasting: nil}
}

// Needs implements Kind. Whoever writes the policy must be able to make the Secrets of another
// namespace.
func (exportKind) Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs {
	on := rights.Right{Namespace: cmp.Or(s.Export.Namespace, namespace), Resource: "secrets"}
	needs := Needs{Reads: nil, Engine: append(kubeconfig(namespace), rights.Verbs(on, "get", "create", "update", "delete")...), Author: nil}
	if on.Namespace != namespace {
		needs.Author = []AuthorRight{{at.Child("export", "namespace"), rights.Verbs(on, "create")[0]}}
	}
	return needs
}

// Validate implements Kind.
func (exportKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	e := s.Export
	at = at.Child("export")
	var errs field.ErrorList
	if e.Namespace != "" {
		errs = matches(e.Namespace, validation.IsDNS1123Label, at.Child("namespace"))
	}
	for i, resource := range e.Resources {
		at := at.Child("resources").Index(i)
		errs = append(errs, validateKind(resource.APIVersion, resource.Kind, at)...)
		errs = append(errs, ValidateSelector(resource.LabelSelector, at.Child("labelSelector"))...)
		for j, namespace := range resource.Namespaces {
			errs = append(errs, matches(namespace, validation.IsDNS1123Label, at.Child("namespaces").Index(j))...)
		}
	}
	return errs
}

// archiveSlots bounds the archives that are made at once.
var archiveSlots = make(chan struct{}, maxArchives)

// Execute implements Kind.
func (exportKind) Execute(ctx context.Context, in Input) (Result, error) {
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: fmt.Sprintf("would export objects of %d resources", len(in.Step.Export.Resources))}, nil
	}
	select {
	case archiveSlots <- struct{}{}:
		defer func() { <-archiveSlots }()
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%d other archives are made: %w", maxArchives, ctx.Err())
	}
	index, err := savedArchive(ctx, in)
	if err != nil {
		return Result{}, err
	}
	if index == nil {
		content, objects, err := collectArchive(ctx, in)
		if err != nil {
			return Result{}, err
		}
		if index, err = saveArchive(ctx, in, content, objects); err != nil {
			return Result{}, err
		}
	}
	return Result{Done: true, Message: fmt.Sprintf("exported %d objects in %d bytes; the index of the archive is in Secret %s/%s",
		index.Objects, index.Bytes, archiveNamespace(in), archiveName(in))}, nil
}

// collectArchive returns the archive of what the step selects, and how many objects are in it.
func collectArchive(ctx context.Context, in Input) ([]byte, int, error) {
	cluster, err := in.Env.Workload.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return nil, 0, err
	}
	limit := ptr.Deref(in.Step.Export.MaxBytes, defaultArchiveBytes)
	a := newArchive(limit)
	for i, resource := range in.Step.Export.Resources {
		if err := collectResource(ctx, cluster, resource, a); err != nil {
			return nil, 0, explainExport(i, resource, limit, err)
		}
	}
	content, err := a.close()
	if err != nil {
		return nil, 0, explainTooLarge(limit, err)
	}
	return content, len(a.paths), nil
}

func collectResource(ctx context.Context, cluster *workload.Cluster, resource lifecyclev1.ExportResource, a *archive) error {
	options := &client.ListOptions{}
	if resource.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(resource.LabelSelector)
		if err != nil {
			return Terminal(fmt.Errorf("labelSelector: %w", err), "correct the policy, then retry")
		}
		options.LabelSelector = selector
	}
	// The empty namespace is all of them.
	namespaces := []string{""}
	if len(resource.Namespaces) > 0 {
		namespaces = slices.Sorted(slices.Values(resource.Namespaces))
	}
	kind := schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
	for _, namespace := range namespaces {
		options.Namespace = namespace
		if err := cluster.Each(ctx, kind, a.add, options); err != nil {
			return err
		}
	}
	return nil
}

func explainExport(i int, resource lifecyclev1.ExportResource, limit int64, err error) error {
	err = explainTooLarge(limit, err)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("export.resources[%d]: the workload cluster does not know the kind %s of %s; correct the policy, or skip the step: %w",
			i, resource.Kind, resource.APIVersion, err)
	}
	return fmt.Errorf("export.resources[%d]: %w", i, err)
}

func explainTooLarge(limit int64, err error) error {
	if errors.Is(err, errArchiveTooLarge) {
		return Terminal(fmt.Errorf("the archive is larger than maxBytes, %d", limit), "raise export.maxBytes or select fewer objects, then retry")
	}
	return err
}
