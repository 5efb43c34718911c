package export

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

const defaultMaxBytes = 16 << 20

// New returns the executor of export steps. management must not read from a cache.
func New(management client.Client, clients workload.Clients) step.Executor {
	return &executor{management: management, clients: clients, slots: make(chan struct{}, atOnce)}
}

// atOnce is how many archives are made at once: each is in memory as a whole.
const atOnce = 10

type executor struct {
	management client.Client
	clients    workload.Clients
	slots      chan struct{}
}

// Execute implements step.Executor.
func (e *executor) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return step.Result{Done: true, Message: fmt.Sprintf("would export objects of %d resources", len(in.Step.Export.Resources))}, nil
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return step.Result{}, fmt.Errorf("%d other archives are made: %w", atOnce, ctx.Err())
	}
	index, err := e.saved(ctx, in)
	if err != nil {
		return step.Result{}, err
	}
	if index == nil {
		content, objects, err := e.collect(ctx, in)
		if err != nil {
			return step.Result{}, err
		}
		if index, err = e.save(ctx, in, content, objects); err != nil {
			return step.Result{}, err
		}
	}
	return step.Result{Done: true, Message: fmt.Sprintf("exported %d objects in %d bytes; the index of the archive is in Secret %s/%s",
		index.Objects, index.Bytes, placeOf(in), nameOf(in))}, nil
}

// collect returns the archive of what the step selects, and how many objects are in it.
func (e *executor) collect(ctx context.Context, in step.Input) ([]byte, int, error) {
	cluster, err := e.clients.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return nil, 0, err
	}
	limit := ptr.Deref(in.Step.Export.MaxBytes, defaultMaxBytes)
	a := newArchive(limit)
	for i, resource := range in.Step.Export.Resources {
		if err := collectResource(ctx, cluster, resource, a); err != nil {
			return nil, 0, explain(i, resource, limit, err)
		}
	}
	content, err := a.close()
	if err != nil {
		return nil, 0, tooLarge(limit, err)
	}
	return content, len(a.paths), nil
}

func collectResource(ctx context.Context, cluster *workload.Cluster, resource lifecyclev1.ExportResource, a *archive) error {
	options := &client.ListOptions{}
	if resource.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(resource.LabelSelector)
		if err != nil {
			return step.Terminal(fmt.Errorf("labelSelector: %w", err), "correct the policy, then retry")
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

func explain(i int, resource lifecyclev1.ExportResource, limit int64, err error) error {
	err = tooLarge(limit, err)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("export.resources[%d]: the workload cluster does not know the kind %s of %s; correct the policy, or skip the step: %w",
			i, resource.Kind, resource.APIVersion, err)
	}
	return fmt.Errorf("export.resources[%d]: %w", i, err)
}

func tooLarge(limit int64, err error) error {
	if errors.Is(err, errTooLarge) {
		return step.Terminal(fmt.Errorf("the archive is larger than maxBytes, %d", limit), "raise export.maxBytes or select fewer objects, then retry")
	}
	return err
}
