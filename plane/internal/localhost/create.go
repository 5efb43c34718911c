package localhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// Create makes the disk of a host, with the images of the bundle on it. The host
// is off. For a host that exists it updates what the spec says; files that
// changed are written at the next boot.
func (m *Manager) Create(ctx context.Context, spec Spec) error {
	if err := sandbox.ValidateName(spec.Name); err != nil {
		return err
	}
	if !network.Subnet.Contains(spec.IP) || spec.IP == network.Gateway {
		return fmt.Errorf("host %s: address %s is not in %s", spec.Name, spec.IP, network.Subnet)
	}
	bundle, err := LoadBundle(m.Bundle)
	if err != nil {
		return err
	}
	unlock, err := m.lockHost(ctx, spec.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.checkAddress(spec); err != nil {
		return err
	}
	s, err := m.complete(spec, bundle)
	if err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Dir, specFile)); errors.Is(err, os.ErrNotExist) {
		if err := newDisk(ctx, bundle, s.Dir); err != nil {
			return fmt.Errorf("host %s: %w", s.Name, err)
		}
	}
	// The spec is what makes it a host, so it comes last.
	return s.Save()
}

// newDisk makes the disk of a host, with nothing of an earlier one on it whose creation or removal was interrupted: its links could
// lead anywhere.
func newDisk(ctx context.Context, bundle *Bundle, dir string) error {
	if err := removeDisk(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := bundle.seedStore(ctx, filepath.Join(dir, "var/lib/containerd")); err != nil {
		return fmt.Errorf("image store: %w", err)
	}
	return nil
}

// specFile is what makes a directory a host.
const specFile = "spec.json"

// complete fills in what the caller does not choose.
func (m *Manager) complete(spec Spec, bundle *Bundle) (sandbox.Spec, error) {
	s := sandbox.Spec{
		Instance:          m.Name,
		Name:              spec.Name,
		Hostname:          spec.Hostname,
		IP:                spec.IP,
		Gateway:           network.Gateway,
		MachineID:         sandbox.NewMachineID(),
		Dir:               m.Dir(spec.Name),
		Bundle:            m.Bundle,
		KubernetesVersion: spec.KubernetesVersion,
		PauseImage:        bundle.PauseImage,
		Sandbox:           m.Sandbox,
		Agent:             m.Agent,
		Files:             spec.Files,
		Units:             spec.Units,
	}
	if s.KubernetesVersion == "" {
		s.KubernetesVersion = bundle.Newest()
	}
	if !slices.Contains(bundle.KubernetesVersions, s.KubernetesVersion) {
		return s, fmt.Errorf("host %s: the node bundle has no Kubernetes %s; it has %s", spec.Name, s.KubernetesVersion, strings.Join(bundle.KubernetesVersions, ", "))
	}
	before, err := sandbox.LoadSpec(s.Dir)
	switch {
	case err == nil:
		// The identity of a host is not chosen anew. Its first version is, should the
		// bundle no longer have it; a version chosen since is a link on its disk.
		s.MachineID, s.Cgroups = before.MachineID, before.Cgroups
		if slices.Contains(bundle.KubernetesVersions, before.KubernetesVersion) {
			s.KubernetesVersion = before.KubernetesVersion
		}
	case !errors.Is(err, os.ErrNotExist):
		return s, err
	}
	return s, nil
}

// checkAddress refuses an address that another host has.
func (m *Manager) checkAddress(spec Spec) error {
	names, err := m.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == spec.Name {
			continue
		}
		if other, err := m.load(name); err == nil && other.IP == spec.IP {
			return fmt.Errorf("host %s: address %s belongs to host %s", spec.Name, spec.IP, name)
		}
	}
	return nil
}

// names lists the hosts that have a spec, sorted.
func (m *Manager) names() ([]string, error) {
	entries, err := os.ReadDir(m.hostsDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(m.hostsDir(), e.Name(), specFile)); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
