package inplace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// Handler answers the hooks.
type Handler struct {
	// Client reads hosts from a cache, and writes.
	Client client.Client
	// APIReader reads without a cache what an update depends on.
	APIReader client.Reader
	// Version of the manager.
	Version string
}

// AddTo registers the handlers.
func (h *Handler) AddTo(s *extension.Server) error {
	return errors.Join(
		extension.Handle(s, capi.CanUpdateMachineSet, "can-update-machine-set", h.canUpdateMachineSet),
		extension.Handle(s, capi.CanUpdateMachine, "can-update-machine", h.canUpdateMachine),
		extension.Handle(s, capi.UpdateMachine, "update-machine", h.updateMachine),
	)
}

// canUpdateMachineSet responds with a patch of the version and the requirements on hosts, if nothing
// else changes and each host of the MachineSet offers the version and fits.
func (h *Handler) canUpdateMachineSet(ctx context.Context, r *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error) {
	current, desired := r.Current.MachineSet, r.Desired.MachineSet
	c, no := difference(
		state{current.Spec.Template.Spec, r.Current.InfrastructureMachineTemplate.Raw, r.Current.BootstrapConfigTemplate.Raw},
		state{desired.Spec.Template.Spec, r.Desired.InfrastructureMachineTemplate.Raw, r.Desired.BootstrapConfigTemplate.Raw},
		ofMachineSet)
	if len(no) == 0 && (c.version != "" || c.asks != nil) {
		selector, err := metav1.LabelSelectorAsSelector(&current.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of MachineSet %s: %w", current.Name, err)
		}
		if no, err = h.lacking(ctx, c, client.InNamespace(current.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
	}
	if err := h.judge(ctx, "MachineSet "+current.Name, desired.Spec.Template.Annotations, no); err != nil || len(no) > 0 {
		return nil, err
	}
	return &hooksv1.CanUpdateMachineSetResponse{MachineSetPatch: versionPatch(c.version, ofMachineSet), InfrastructureMachineTemplatePatch: c.infrastructure}, nil
}

// canUpdateMachine does the same for one Machine. Cluster API calls it for those of
// control planes. One that can be updated, but not now, is an error, so that the call is repeated:
// without a patch it would be replaced.
func (h *Handler) canUpdateMachine(ctx context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
	current, desired := r.Current.Machine, r.Desired.Machine
	ofControlPlane := util.IsControlPlaneMachine(&current) || util.IsControlPlaneMachine(&desired)
	bootstrap, bootstrapPatch := r.Current.BootstrapConfig.Raw, hooksv1.Patch{}
	if ofControlPlane && current.Spec.Version != desired.Spec.Version {
		// One that cannot be read is found in the way below.
		if followed, patch, err := followVersion(bootstrap, r.Desired.BootstrapConfig.Raw); err == nil {
			bootstrap, bootstrapPatch = followed, patch
		}
	}
	c, no := difference(
		state{current.Spec, r.Current.InfrastructureMachine.Raw, bootstrap},
		state{desired.Spec, r.Desired.InfrastructureMachine.Raw, r.Desired.BootstrapConfig.Raw},
		ofMachine)
	wait := ""
	if ofControlPlane && c.version != "" {
		if patched(r.Current.BootstrapConfig.Raw) || patched(r.Desired.BootstrapConfig.Raw) {
			no = append(no, "its bootstrap configuration names patches of kubeadm")
		}
		many, soon, err := h.controlPlane(ctx, h.Client, &current)
		if err != nil {
			return nil, err
		}
		no, wait = append(no, many...), soon
	}
	if len(no) == 0 {
		missing, err := h.lacks(ctx, client.ObjectKey{Namespace: current.Namespace, Name: current.Spec.InfrastructureRef.Name}, c)
		if err != nil {
			return nil, err
		}
		if missing != "" {
			no = append(no, missing)
		}
	}
	if err := h.judge(ctx, "Machine "+current.Name, desired.Annotations, no); err != nil || len(no) > 0 {
		return nil, err
	}
	if wait != "" {
		return nil, fmt.Errorf("the Machine %s is updated in place later: %s", current.Name, wait)
	}
	return &hooksv1.CanUpdateMachineResponse{MachinePatch: versionPatch(c.version, ofMachine), InfrastructureMachinePatch: c.infrastructure, BootstrapConfigPatch: bootstrapPatch}, nil
}

// judge logs why a change cannot be made in place. It fails, which pauses the rollout, when
// the Machines must not be replaced.
func (h *Handler) judge(ctx context.Context, what string, annotations map[string]string, no cannot) error {
	policy := annotations[infrav1.InPlaceUpdatesAnnotation]
	switch policy {
	case "", infrav1.InPlaceUpdatesPreferred, infrav1.InPlaceUpdatesRequired:
	default:
		return fmt.Errorf("%s: annotation %s is %q, want %s or %s", what, infrav1.InPlaceUpdatesAnnotation, policy, infrav1.InPlaceUpdatesPreferred, infrav1.InPlaceUpdatesRequired)
	}
	if len(no) == 0 {
		return nil
	}
	log.FromContext(ctx).Info("A change cannot be made in place", "of", what, "inPlaceUpdates", policy, "reasons", no.String())
	if policy == infrav1.InPlaceUpdatesRequired {
		return fmt.Errorf("%s is not replaced, as its annotation %s asks, and the change cannot be made in place: %s. Take the change back, or the annotation",
			what, infrav1.InPlaceUpdatesAnnotation, no)
	}
	return nil
}

// versionPatch is what can be done in place; undefined without a version.
func versionPatch(version string, path specPath) hooksv1.Patch {
	if version == "" {
		return hooksv1.Patch{}
	}
	patch := fmt.Sprintf(`{"version":%q}`, version)
	for _, name := range slices.Backward(path) {
		patch = fmt.Sprintf(`{%q:%s}`, name, patch)
	}
	return hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: []byte(patch)}
}
