package software

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// InstallStep is the step of an operation that installs its version.
const InstallStep = "host software"

// Installer implements effects.Software.
type Installer struct {
	Host Host
	// Has says whether the host has a version, whoever put it there.
	Has func(ctx context.Context, version string) bool
	// Keys are those of which one must have signed a bundle.
	Keys func() (hostbundle.PublicKeys, error)
	// Sources are asked in their order.
	Sources func(ctx context.Context) ([]Source, error)
	// Keep is how many of the versions that were installed last stay without a use.
	Keep int
	// Changed is called when versions came or went.
	Changed func()
	Now     func() time.Time
	Log     *slog.Logger
}

// Install brings the version onto the host. It may be interrupted at any point, and then
// goes on where it was. All that stands in the way may be mended, here or where bundles come
// from, so no failure is for good.
func (i *Installer) Install(ctx context.Context, requested operation.Software, progress operation.Progress) error {
	if requested.Version == "" || requested.ReleaseDigest == "" {
		return nil
	}
	want := Wanted{Version: requested.Version, Index: digest.Digest(requested.ReleaseDigest)}
	if there, err := i.there(ctx, want); err != nil || there {
		return refused(ctx, want, err)
	}
	return operation.Step(progress, InstallStep, func() error {
		if err := i.fetch(ctx, want, progress); err != nil {
			return refused(ctx, want, err)
		}
		i.Changed()
		i.Log.Info("installed a Kubernetes version", "version", want.Version, "digest", want.Index)
		return progress.Update(func(s *journal.State) { s.Operation.Reason, s.Operation.Message = "", "" })
	})
}

// there says whether nothing is to be installed: the very bundle is on the host, or the
// version is there and not from a bundle, so somebody else sees to it.
func (i *Installer) there(ctx context.Context, want Wanted) (bool, error) {
	releases, err := i.Host.Installed()
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(releases, func(r Release) bool { return r.KubernetesVersion == want.Version })
	if at < 0 {
		return i.Has(ctx, want.Version), nil
	}
	return releases[at].State == StateInstalled && releases[at].Index == want.Index, nil
}

func (i *Installer) fetch(ctx context.Context, want Wanted, progress operation.Progress) error {
	keys, err := i.Keys()
	if err != nil {
		return err
	}
	sources, err := i.Sources(ctx)
	if err != nil {
		return err
	}
	// A word that cannot be written down is no reason to stop.
	tell := func(format string, args ...any) {
		_ = progress.Update(func(s *journal.State) { s.Operation.Reason, s.Operation.Message = "", fmt.Sprintf(format, args...) })
	}
	host := i.Host
	host.Progress = func(done, all int, what string) { tell("unpacking %d of %d: %s", done, all, what) }
	var last time.Time
	host.Fetching = func(c hostbundle.Component, have, size int64) {
		if now := i.Now(); have == size || now.Sub(last) >= tellEvery {
			last = now
			tell("fetched %d of %d MiB of %s %s", have>>20, size>>20, c.Name, c.Version)
		}
	}
	_, err = host.Fetch(ctx, want, keys, sources...)
	return err
}

// refused is a failure with its reason; nil for none. One that was asked for, as by another
// operation, is left as it is.
func refused(ctx context.Context, want Wanted, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &operation.Error{Reason: operation.ReasonSoftwareUnavailable, Retry: operation.RetryLater, Err: err,
		Message: fmt.Sprintf("install Kubernetes %s: %s", want.Version, Explain(err))}
}

// Tidy removes versions that nothing uses.
func (i *Installer) Tidy(ctx context.Context, inUse string) error {
	gone, result, err := i.Host.Tidy(ctx, inUse, i.Keep)
	if len(gone) > 0 && err == nil {
		i.Changed()
		i.Log.Info("removed Kubernetes versions that nothing uses", "versions", gone, "kept", result.Kept)
	}
	return err
}
