package selfupdate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

var (
	// errUnfit is wrapped by what is wrong with a program for good.
	errUnfit = errors.New("is not what was ordered")
	// errSlow is wrapped by what is wrong with a program, or with the host at that moment.
	errSlow = errors.New("does not tell its version")
)

// prepare puts the ordered program beside the own one. The record tells how that went; the
// error is one of keeping it. It ends early when the order changes.
func (u *Updater) prepare(ctx context.Context, o Order, r *Record, ordered <-chan struct{}) error {
	if u.record == nil {
		if err := u.save(*r); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-ordered:
			cancel()
		}
	}()
	err := u.fetch(ctx, o)
	if err == nil {
		err = u.check(ctx, o)
	}
	kept := *u.record
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, errUnfit):
		return u.settle(kept.hopeless(err.Error()))
	case errors.Is(err, errSlow):
		return u.settle(kept.begun(u.now(), u.limits.retry).failed(err.Error(), u.now(), u.limits.retry))
	case err != nil:
		u.failures++
		wait := u.limits.afterFailure(u.failures)
		u.fetchAt = u.now().Add(wait)
		kept.State, kept.Message = infrav1.HostAgentUpdateFetching, fmt.Sprintf("cannot fetch slipway-agent %s, trying again: %s", o.Version, software.Explain(err))
		u.options.Log().Warn("cannot fetch another version of slipway-agent, trying again", "version", o.Version, "err", err, "in", wait.Round(time.Second))
		return u.save(kept)
	}
	u.prepared, u.failures = true, 0
	u.options.Log().Info("fetched and verified another version of slipway-agent", "version", o.Version, "digest", o.ReleaseDigest)
	return nil
}

func (u *Updater) fetch(ctx context.Context, o Order) (err error) {
	index, err := digest.Parse(o.ReleaseDigest)
	if err != nil {
		return fmt.Errorf("the digest that is ordered, %q: %w", o.ReleaseDigest, err)
	}
	keys, err := u.options.Keys()
	if err != nil {
		return err
	}
	sources, err := u.options.Sources(ctx)
	if err != nil {
		return err
	}
	if err := u.room(hostbundle.MaxDescription, 0); err != nil {
		return err
	}
	s := staging(u.options.StateDir)
	defer func() {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = errors.Join(err, s.Remove()) // the journal needs the room
		}
	}()
	b, sources, err := software.Stage(ctx, s, software.Wanted{Version: hostbundle.AgentTag(o.Version), Index: index}, keys, sources)
	if err != nil {
		return err
	}
	c := b.Components[0] // the only one of such a bundle
	if err := u.room(b.Blob(c).Size-s.Have(b.Blob(c)), c.Size()); err != nil {
		return err
	}
	if err := software.Blob(ctx, s, b.Blob(c), sources, nil); err != nil {
		return err
	}
	if err := u.unpack(b, c); err != nil {
		return err
	}
	return s.Remove()
}

// spare is what stays free of a disk, in bytes: the journal of the agent is there.
const spare = 64 << 20

// room refuses what would fill a disk.
func (u *Updater) room(fetched, unpacked int64) error {
	for path, size := range map[string]int64{u.options.StateDir: fetched + unpacked, u.options.Program: unpacked} {
		free, _, err := hostfs.Root("").Space(path)
		if err != nil {
			return err
		}
		if free < size+spare {
			return &software.Error{Reason: software.ReasonNoSpace, Err: fmt.Errorf("it takes %d MiB beside %s, of which %d MiB are free and %d MiB shall stay so; make room there",
				size>>20, path, free>>20, int64(spare)>>20)}
		}
	}
	return nil
}

// unpack gives the program its name once all of it is verified.
func (u *Updater) unpack(b *hostbundle.Bundle, c hostbundle.Component) error {
	err := b.Unpack(c, func(_ hostbundle.File, content io.Reader) error { return writeProgram(u.part(), content) })
	if err != nil {
		return errors.Join(err, durable.Remove(u.part()))
	}
	return durable.Rename(u.part(), u.next())
}

// maxOutput bounds what of the output of a program is looked at, in bytes.
const maxOutput = 256

// check has the program tell its version.
func (u *Updater) check(ctx context.Context, o Order) error {
	limited, cancel := context.WithTimeout(ctx, u.limits.check)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, u.next(), "version")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.WaitDelay = environment(), "/", &bounded{&out}, time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	printed := strings.TrimSuffix(out.String(), "\n")
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil:
		return fmt.Errorf("the program of slipway-agent %s %w within %s", o.Version, errSlow, u.limits.check)
	case errors.Is(err, syscall.ENOEXEC), errors.As(err, &exit):
		return fmt.Errorf("the program of slipway-agent %s %w: it cannot tell its version: %w", o.Version, errUnfit, err)
	case err != nil:
		return fmt.Errorf("start the program of slipway-agent %s: %w", o.Version, err)
	case printed != o.Version:
		return fmt.Errorf("the program of slipway-agent %s %w: it says that its version is %q", o.Version, errUnfit, printed)
	}
	return nil
}

// bounded takes all, and keeps the beginning.
type bounded struct{ *bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}
