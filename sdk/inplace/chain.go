package inplace

import (
	"context"
	"errors"
	"fmt"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// Updater changes something of machines in place. Its functions are handlers of the hooks
// of the same names, and keep to what those ask for: above all, UpdateMachine is called
// again and again for one machine, also when it was done before, and has to be idempotent.
type Updater struct {
	// Name in messages, such as "ntp"; unique in a chain.
	Name string
	// CanUpdateMachine answers with the patches of what it can change. It sees what the
	// updaters before it will have changed as the current state. Required.
	CanUpdateMachine func(context.Context, *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error)
	// CanUpdateMachineSet does so for the templates of a MachineSet. Without it the updater
	// changes nothing there, and machines of MachineDeployments are replaced for its sake.
	CanUpdateMachineSet func(context.Context, *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error)
	// UpdateMachine makes the machine as it is wanted. extension.RetryAfter, or a response
	// that says so, asks to be called again; the updaters after it wait meanwhile. Required.
	UpdateMachine func(context.Context, *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error)
}

// Chain is updaters in their order.
type Chain []Updater

// Handle registers the three handlers NAME-can-update-machine, NAME-can-update-machine-set
// and NAME-update-machine. A call is that of all updaters: its timeout, 10 s without
// extension.WithTimeout, is for all of them together. The error names an updater that
// lacks something.
func Handle(s *extension.Server, name string, chain Chain, options ...extension.HandlerOption) error {
	if err := chain.check(); err != nil {
		return err
	}
	return errors.Join(
		extension.Handle(s, capi.CanUpdateMachine, name+"-can-update-machine", chain.CanUpdateMachine, options...),
		extension.Handle(s, capi.CanUpdateMachineSet, name+"-can-update-machine-set", chain.CanUpdateMachineSet, options...),
		extension.Handle(s, capi.UpdateMachine, name+"-update-machine", chain.UpdateMachine, options...),
	)
}

func (c Chain) check() error {
	if len(c) == 0 {
		return errors.New("inplace: the chain has no updater")
	}
	names := map[string]bool{}
	for i, u := range c {
		switch {
		case u.Name == "":
			return fmt.Errorf("inplace: updater %d has no Name", i)
		case names[u.Name]:
			return fmt.Errorf("inplace: two updaters have the name %q", u.Name)
		case u.CanUpdateMachine == nil:
			return fmt.Errorf("inplace: updater %q has no CanUpdateMachine", u.Name)
		case u.UpdateMachine == nil:
			return fmt.Errorf("inplace: updater %q has no UpdateMachine", u.Name)
		}
		names[u.Name] = true
	}
	return nil
}

// CanUpdateMachine asks the updaters one after the other. The answer has one merge patch for
// each object, of what all of them change; an error of one of them, a status Failure, or a
// patch that cannot be applied is an error, and nothing is promised.
func (c Chain) CanUpdateMachine(ctx context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
	now := *r.Current.DeepCopy()
	for _, u := range c {
		request := r.DeepCopy()
		now.DeepCopyInto(&request.Current)
		response, err := u.CanUpdateMachine(ctx, request)
		if err = settled(response, err); err != nil {
			return nil, u.wrap(err)
		}
		if response == nil {
			continue
		}
		err = errors.Join(
			applyTo(&now.Machine, "machinePatch", response.MachinePatch),
			applyToRaw(&now.InfrastructureMachine, "infrastructureMachinePatch", response.InfrastructureMachinePatch),
			applyToRaw(&now.BootstrapConfig, "bootstrapConfigPatch", response.BootstrapConfigPatch),
		)
		if err != nil {
			return nil, u.wrap(err)
		}
	}
	all := &hooksv1.CanUpdateMachineResponse{}
	return all, errors.Join(
		difference(&all.MachinePatch, &r.Current.Machine, &now.Machine),
		difference(&all.InfrastructureMachinePatch, r.Current.InfrastructureMachine, now.InfrastructureMachine),
		difference(&all.BootstrapConfigPatch, r.Current.BootstrapConfig, now.BootstrapConfig),
	)
}

// CanUpdateMachineSet does as CanUpdateMachine, for the templates of a MachineSet.
func (c Chain) CanUpdateMachineSet(ctx context.Context, r *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error) {
	now := *r.Current.DeepCopy()
	for _, u := range c {
		if u.CanUpdateMachineSet == nil {
			continue
		}
		request := r.DeepCopy()
		now.DeepCopyInto(&request.Current)
		response, err := u.CanUpdateMachineSet(ctx, request)
		if err = settled(response, err); err != nil {
			return nil, u.wrap(err)
		}
		if response == nil {
			continue
		}
		err = errors.Join(
			applyTo(&now.MachineSet, "machineSetPatch", response.MachineSetPatch),
			applyToRaw(&now.InfrastructureMachineTemplate, "infrastructureMachineTemplatePatch", response.InfrastructureMachineTemplatePatch),
			applyToRaw(&now.BootstrapConfigTemplate, "bootstrapConfigTemplatePatch", response.BootstrapConfigTemplatePatch),
		)
		if err != nil {
			return nil, u.wrap(err)
		}
	}
	all := &hooksv1.CanUpdateMachineSetResponse{}
	return all, errors.Join(
		difference(&all.MachineSetPatch, &r.Current.MachineSet, &now.MachineSet),
		difference(&all.InfrastructureMachineTemplatePatch, r.Current.InfrastructureMachineTemplate, now.InfrastructureMachineTemplate),
		difference(&all.BootstrapConfigTemplatePatch, r.Current.BootstrapConfigTemplate, now.BootstrapConfigTemplate),
	)
}

// UpdateMachine calls the updaters one after the other, until one of them is not done.
func (c Chain) UpdateMachine(ctx context.Context, r *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
	for _, u := range c {
		response, err := u.UpdateMachine(ctx, r.DeepCopy())
		if err = settled(response, err); err != nil {
			return nil, u.wrap(err)
		}
		if response != nil && response.RetryAfterSeconds != 0 {
			return response, nil
		}
	}
	return nil, nil
}

// settled makes an error of an answer that is none, and of a Failure.
func settled[R any, P interface {
	*R
	hooksv1.ResponseObject
}](response P, err error) error {
	switch {
	case err != nil:
		return err
	case response == nil:
		return nil
	case response.GetStatus() == hooksv1.ResponseStatusFailure:
		return errors.New(response.GetMessage())
	}
	return nil
}

func (u Updater) wrap(err error) error { return fmt.Errorf("updater %s: %w", u.Name, err) }
