package software

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// staging is where a bundle is fetched to. It goes with the end of the install, and with an
// uninstall; until then an install that was interrupted goes on with what is there.
const staging = "/var/lib/slipway-software.fetched"

// Source is where bundles are fetched from: a registry, or a management cluster.
type Source interface {
	fmt.Stringer
	// Versions that there are bundles of, from old to new.
	Versions(ctx context.Context) ([]string, error)
	// Stage brings what describes a bundle, and its signatures. It writes nothing of a bundle that
	// no key of the staging signed.
	Stage(ctx context.Context, s hostbundle.Staging, version, architecture string) error
	// Blob brings content that was described, from where it was on.
	Blob(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, progress func(have, size int64)) error
}

// Wanted is what to fetch.
type Wanted struct {
	// Version of Kubernetes, or what hostbundle.AgentTag makes of one of the agent; the newest
	// Kubernetes of the source when empty.
	Version string
	// Index is the digest that the bundle must have; any will do when empty.
	Index digest.Digest
}

// Fetch installs a version from the first of the sources that has it; the newest of that
// source when none is named. What is on the host already is not fetched, and nothing is
// before a signature by one of the keys holds and the host can take the bundle. It returns
// the version.
func (h *Host) Fetch(ctx context.Context, want Wanted, keys hostbundle.PublicKeys, sources ...Source) (string, error) {
	unlock, err := h.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	version, err := h.fetchAll(ctx, want, keys, sources)
	if err == nil || hopeless(err) {
		err = errors.Join(err, h.disk(context.WithoutCancel(ctx)).removeAll(staging))
	}
	return version, err
}

// hopeless says that what was fetched is of no use before somebody changes something, or takes the
// room that others lack on a full disk: the host stays as it was.
func hopeless(err error) bool {
	var host *Error
	var bundle *hostbundle.Error
	if errors.As(err, &host) {
		return slices.Contains([]Reason{ReasonForeign, ReasonChanged, ReasonOtherBundle, ReasonNoSpace}, host.Reason)
	}
	return errors.As(err, &bundle) && !slices.Contains([]hostbundle.Reason{hostbundle.ReasonUnreachable, hostbundle.ReasonDenied, hostbundle.ReasonCorrupt}, bundle.Reason)
}

// fetchAll does it. The caller holds the lock.
func (h *Host) fetchAll(ctx context.Context, want Wanted, keys hostbundle.PublicKeys, sources []Source) (string, error) {
	if err := h.checkSpace(staging, hostbundle.MaxDescription); err != nil {
		return "", err
	}
	fetched := hostbundle.Staging{Dir: h.Root.Path(staging)}
	b, sources, err := Stage(ctx, fetched, want, keys, sources)
	if err != nil {
		return "", full(err)
	}
	record, err := h.adding(b)
	if err != nil {
		return "", err
	}
	p, err := h.plan(record)
	if err != nil {
		return "", err
	}
	lacking := p.lacking(b, fetched)
	var left int64
	for _, c := range lacking {
		left += max(b.Blob(c).Size-fetched.Have(b.Blob(c)), 0)
	}
	// The store is on the same disk mostly.
	if err := errors.Join(h.checkSpace(staging, left), h.checkSpace(store, left+p.size())); err != nil {
		return "", err
	}
	for _, c := range lacking {
		if err := h.fetch(ctx, fetched, b, c, sources); err != nil {
			return "", full(err)
		}
	}
	return b.KubernetesVersion, h.install(ctx, record, b)
}

// Stage brings the description of a bundle that can be trusted, and returns the sources in
// the order in which to ask for its content.
func Stage(ctx context.Context, s hostbundle.Staging, want Wanted, keys hostbundle.PublicKeys, sources []Source) (*hostbundle.Bundle, []Source, error) {
	s.Keys = keys
	var errs []error
	for i, source := range sources {
		b, err := stageFrom(ctx, s, want, keys, source)
		if err == nil {
			return b, slices.Concat(sources[i:], sources[:i]), nil
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

func stageFrom(ctx context.Context, s hostbundle.Staging, want Wanted, keys hostbundle.PublicKeys, source Source) (*hostbundle.Bundle, error) {
	version := want.Version
	if version == "" {
		versions, err := source.Versions(ctx)
		if err != nil {
			return nil, err
		}
		if len(versions) == 0 {
			return nil, &hostbundle.Error{Reason: hostbundle.ReasonNotFound, Err: fmt.Errorf("%s has no bundle of any Kubernetes version", source)}
		}
		version = versions[len(versions)-1]
	}
	if err := source.Stage(ctx, s, version, runtime.GOARCH); err != nil {
		return nil, err
	}
	d, err := s.Open()
	if err != nil {
		return nil, err
	}
	b, err := d.Bundle(version, runtime.GOARCH, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if want.Index != "" && b.Index() != want.Index {
		return nil, refuse(ReasonOtherBundle, "%s has the bundle %s of %s, and %s is wanted; load that one there again, or tell the management cluster of the other one: `slipway bundle load` does both",
			source, b.Index(), hostbundle.Title(version), want.Index)
	}
	return b, nil
}

// lacking are the components of a bundle that the plan makes.
func (p plan) lacking(b *hostbundle.Bundle, s hostbundle.Staging) []hostbundle.Component {
	var lacking []hostbundle.Component
	for _, c := range b.Components {
		makes := func(s step) bool {
			return s.Kind == KindComponent && !s.remove && s.component.Layer == c.Layer
		}
		if slices.ContainsFunc(p.steps, makes) && !s.Has(b.Blob(c)) {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

// fetch brings one component.
func (h *Host) fetch(ctx context.Context, s hostbundle.Staging, b *hostbundle.Bundle, c hostbundle.Component, sources []Source) error {
	err := Blob(ctx, s, b.Blob(c), sources, func(have, size int64) {
		if h.Fetching != nil {
			h.Fetching(c, have, size)
		}
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("fetch %s %s: %w", c.Name, c.Version, err)
}

// Blob brings content of a bundle from the first source that can. progress may be nil.
func Blob(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, sources []Source, progress func(have, size int64)) error {
	var errs []error
	for _, source := range sources {
		err := source.Blob(ctx, s, d, progress)
		if err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
