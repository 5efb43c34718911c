package software

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// spare is what stays free on the disk, in bytes: a full disk stops more than an install.
const spare = 256 << 20

// Host is a host whose software this package manages.
type Host struct {
	Root hostfs.Root
	// Services is nil where nothing shall be started or stopped, such as below another root.
	Services *Services
	// Progress is told each component that is about to be unpacked. May be nil.
	Progress func(done, all int, what string)
	// Fetching is told how much of a component's content came from a source, of so much, in
	// bytes. May be nil.
	Fetching func(c hostbundle.Component, have, size int64)
}

// Result says what an uninstall could not take away.
type Result struct {
	// Kept are paths that somebody changed, or that hold files of somebody else.
	Kept []string `json:"kept,omitempty"`
}

// Installed lists the versions on the host.
func (h *Host) Installed() ([]Release, error) {
	r, err := readRecord(h.Root)
	return r.Releases, err
}

// Install puts the version of a bundle on the host, beside those that are there. After an
// interruption it goes on where it was. The error is an *Error when the host refuses.
func (h *Host) Install(ctx context.Context, b *hostbundle.Bundle) error {
	unlock, err := h.lock()
	if err != nil {
		return err
	}
	defer unlock()
	record, err := h.adding(b)
	if err != nil {
		return err
	}
	return h.install(ctx, record, b)
}

// adding is the record with one more version, on a host that may have it.
func (h *Host) adding(b *hostbundle.Bundle) (Record, error) {
	if b.AgentVersion != "" {
		return Record{}, &hostbundle.Error{Reason: hostbundle.ReasonNotFound, Err: fmt.Errorf("%s is no Kubernetes version; agents update themselves by their Host", hostbundle.Title(b.Tag()))}
	}
	record, err := readRecord(h.Root)
	if err != nil {
		return record, err
	}
	if len(record.Releases) == 0 {
		if err := checkForeign(h.Root); err != nil {
			return record, err
		}
	}
	record.Releases = record.with(Release{State: StateInstalling, Digest: b.Digest, Index: b.Index(), Contents: b.Contents})
	return record, nil
}

// install says that a version is installed once it was started, too: whoever goes on after an
// interruption knows from the record what is left to do.
func (h *Host) install(ctx context.Context, record Record, b *hostbundle.Bundle) error {
	record, _, err := h.converge(ctx, record, b)
	if err != nil {
		return err
	}
	if h.Services != nil {
		if err := h.Services.Start(ctx, b.Contents); err != nil {
			return err
		}
	}
	for i := range record.Releases {
		if record.Releases[i].KubernetesVersion == b.KubernetesVersion {
			record.Releases[i].State = StateInstalled
		}
	}
	return h.disk(ctx).save(record)
}

// Uninstall takes versions away; all of them when none is named. Whatever nothing needs
// any more goes with them.
func (h *Host) Uninstall(ctx context.Context, versions ...string) (Result, error) {
	unlock, err := h.lock()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	record, err := readRecord(h.Root)
	if err != nil {
		return Result{}, err
	}
	return h.uninstall(ctx, record, versions)
}

// uninstall does it. The caller holds the lock.
func (h *Host) uninstall(ctx context.Context, record Record, versions []string) (Result, error) {
	var err error
	if record.Releases, err = marked(record.Releases, versions); err != nil {
		return Result{}, err
	}
	var names, units []string
	for _, r := range record.Releases {
		if r.State == StateRemoving {
			names, units = append(names, r.KubernetesVersion), r.Units
		}
	}
	last := len(names) > 0 && len(names) == len(record.Releases)
	if err := checkUnused(h.Root, names, last); err != nil {
		return Result{}, err
	}
	if h.Services != nil && last {
		if err := h.Services.Stop(ctx, units); err != nil {
			return Result{}, err
		}
	}
	if err := h.disk(ctx).removeAll(staging); err != nil {
		return Result{}, err
	}
	_, result, err := h.converge(ctx, record, nil)
	if err == nil && h.Services != nil {
		err = h.Services.Forget(ctx)
	}
	return result, err
}

// marked marks the versions that go; all when none is named.
func marked(releases []Release, versions []string) ([]Release, error) {
	marked := slices.Clone(releases)
	for i := range marked {
		if len(versions) == 0 || slices.Contains(versions, marked[i].KubernetesVersion) {
			marked[i].State = StateRemoving
		}
	}
	for _, v := range versions {
		if !slices.ContainsFunc(marked, func(r Release) bool { return r.KubernetesVersion == v }) {
			return nil, refuse(ReasonNotInstalled, "Kubernetes %q was not installed by `slipway-agent software install`; see `slipway-agent software list`", v)
		}
	}
	return marked, nil
}

// converge makes the host what the releases of the record want, and returns the record of
// that. It is written before anything it announces, and again once all is done.
func (h *Host) converge(ctx context.Context, record Record, b *hostbundle.Bundle) (Record, Result, error) {
	d := h.disk(ctx)
	p, err := h.plan(record)
	if err != nil {
		return record, Result{}, err
	}
	if err := h.checkSpace(store, p.size()); err != nil {
		return record, Result{}, err
	}
	record.Entries = p.before(record.Entries)
	if err := d.save(record); err != nil {
		return record, Result{}, err
	}
	kept, err := h.do(d, p, b)
	if err != nil {
		return record, Result{}, err
	}
	record.Releases = slices.DeleteFunc(record.Releases, func(r Release) bool { return r.State == StateRemoving })
	record.Entries = p.owned
	return record, Result{Kept: append(p.kept, kept...)}, d.save(record)
}

func (h *Host) disk(ctx context.Context) disk {
	return disk{root: h.Root, ctx: ctx}
}

// plan compares the host with what the releases of a record want.
func (h *Host) plan(record Record) (plan, error) {
	want := wanted(record.Releases)
	found, err := look(h.Root, slices.Concat(record.Entries, want))
	if err != nil {
		return plan{}, err
	}
	return planned(record.Entries, want, found)
}

// save writes the record; one that says nothing is removed.
func (d disk) save(r Record) error {
	if len(r.Releases) == 0 && len(r.Entries) == 0 {
		return d.remove(recordPath)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	err = d.writeFile(recordPath, append(data, '\n'), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: is %q the root of a Linux system? %w", path.Dir(recordPath), d.root, err)
	}
	return full(err)
}

// do carries the plan out, and returns the directories that hold something else.
func (h *Host) do(d disk, p plan, b *hostbundle.Bundle) (kept []string, err error) {
	var all, done int
	for _, s := range p.steps {
		if s.Kind == KindComponent && !s.remove {
			all++
		}
	}
	for _, s := range p.steps {
		if s.remove {
			gone, err := d.unmake(s.Entry)
			if err != nil {
				return nil, err
			}
			if !gone {
				kept = append(kept, s.Path)
			}
			continue
		}
		if s.Kind == KindComponent {
			done++
			h.tell(done, all, s.component)
		}
		if err := d.make(s.Entry, b); err != nil {
			return nil, full(err)
		}
	}
	return kept, nil
}

func (h *Host) tell(done, all int, c hostbundle.Component) {
	if h.Progress != nil {
		h.Progress(done, all, fmt.Sprintf("%s %s, %d MiB", c.Name, c.Version, c.Size()>>20))
	}
}

func (d disk) make(e Entry, b *hostbundle.Bundle) error {
	switch e.Kind {
	case KindDirectory:
		return d.makeDirectory(e.Path, 0o755)
	case KindState:
		return d.makeDirectory(e.Path, 0o711)
	case KindFile:
		return d.writeFile(e.Path, []byte(e.file.Content), os.FileMode(e.file.Mode))
	case KindLink:
		return d.link(e.Path, e.Target)
	case KindComponent:
		if b == nil || !slices.ContainsFunc(b.Components, func(c hostbundle.Component) bool { return c.Layer == e.component.Layer }) {
			return refuse(ReasonChanged, "%s, with %s %s of another version that is installed, is damaged; install that version again first", e.Path, e.component.Name, e.component.Version)
		}
		return d.unpack(b, e.component)
	}
	return fmt.Errorf("%s: %q is no kind of entry", e.Path, e.Kind)
}

// unmake reports false where something of somebody else is in it.
func (d disk) unmake(e Entry) (bool, error) {
	switch e.Kind {
	case KindDirectory:
		return d.removeEmpty(e.Path)
	case KindState:
		return true, d.removeAll(e.Path)
	case KindComponent:
		return true, d.removeComponent(e.Path)
	case KindFile, KindLink:
	}
	return true, d.remove(e.Path)
}

// checkSpace refuses before anything is written below a directory.
func (h *Host) checkSpace(below string, size int64) error {
	if size == 0 {
		return nil
	}
	free, _, err := h.Root.Space(below)
	if err != nil {
		return err
	}
	if free < size+spare {
		return refuse(ReasonNoSpace, "the bundle takes %d MiB below %s, of which %d MiB are free and %d MiB shall stay so; make room or mount a larger disk there",
			size>>20, below, free>>20, int64(spare)>>20)
	}
	return nil
}

// full gives a disk that filled up in mid write its reason.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refuse(ReasonNoSpace, "the disk is full: %w; make room, then run the same command again", err)
	}
	return err
}

// lock keeps two commands apart. It is on a directory, so that it leaves nothing.
func (h *Host) lock() (unlock func(), err error) {
	unlock, err = durable.TryLock(h.Root.Path(path.Dir(recordPath)))
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, refuse(ReasonBusy, "another `slipway-agent software` is at work on this host; wait for it")
	case err != nil:
		return nil, fmt.Errorf("is %q the root of a Linux system? %w", h.Root, err)
	}
	return unlock, nil
}
