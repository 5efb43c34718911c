package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	storeName = "store"
	// storeDigestName holds the digest of the manifest that store was made for.
	// The store may be used while both agree.
	storeDigestName = "store.digest"
	// stagingPrefix names a store in the making, beside the finished one so that
	// a rename can replace it.
	stagingPrefix = ".store-"
	// identityDir holds the UUID of a containerd, of which each host makes its own.
	identityDir = "io.containerd.grpc.v1.introspection"
)

// importLabels mark each image as never to be removed by the kubelet's image
// garbage collection: a host has no registry to fetch it from again.
var importLabels = []string{"io.cri-containerd.pinned=pinned"}

// seed makes the bundle's store: a containerd root directory that holds all
// images, unpacked for the overlayfs snapshotter. Without root it leaves the
// store out, says so, and succeeds.
func seed(ctx context.Context, bundle string, out io.Writer) (err error) {
	bundle, err = filepath.Abs(bundle)
	if err != nil {
		return err
	}
	unlock, err := lock(bundle)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	m, err := readManifest(bundle)
	if err != nil {
		return fmt.Errorf("the bundle is not assembled: %w", err)
	}
	if storeIsCurrent(bundle, m.Digest) {
		return nil
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(out, "node bundle: the image store was left out, since unpacking images needs root: local hosts need it, run this as root once more")
		return nil
	}
	if err := removeStaging(bundle); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(bundle, stagingPrefix)
	if err != nil {
		return err
	}
	err = errors.Join(importImages(ctx, bundle, staging, m), os.RemoveAll(filepath.Join(staging, identityDir)))
	if err != nil {
		return errors.Join(fmt.Errorf("image store: %w", err), os.RemoveAll(staging))
	}
	if err := publishStore(bundle, staging, m.Digest); err != nil {
		return err
	}
	// The store holds every blob of it.
	if err := os.Remove(filepath.Join(bundle, m.Archive)); err != nil {
		return err
	}
	fmt.Fprintf(out, "node bundle: %d images unpacked in %s\n", len(m.refs()), filepath.Join(bundle, storeName))
	return nil
}

func storeIsCurrent(bundle, digest string) bool {
	made, err := os.ReadFile(filepath.Join(bundle, storeDigestName))
	if err != nil || strings.TrimSpace(string(made)) != digest {
		return false
	}
	info, err := os.Stat(filepath.Join(bundle, storeName))
	return err == nil && info.IsDir()
}

// importImages fills root through a private containerd and checks the outcome.
func importImages(ctx context.Context, bundle, root string, m manifest) (err error) {
	daemon, err := startContainerd(ctx, filepath.Join(bundle, "bin"), root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, daemon.stop()) }()
	args := []string{"images", "import"}
	for _, label := range importLabels {
		args = append(args, "--label", label)
	}
	if _, err := daemon.ctr(ctx, append(args, filepath.Join(bundle, m.Archive))...); err != nil {
		return err
	}
	listed, err := daemon.ctr(ctx, "images", "ls", "--quiet")
	if err != nil {
		return err
	}
	have := strings.Fields(listed)
	for _, ref := range m.refs() {
		if !slices.Contains(have, ref) {
			return fmt.Errorf("image %s is missing after the import", ref)
		}
	}
	return nil
}

// publishStore puts the finished staging directory into place. The digest goes
// first and comes back last, so an interruption leaves a store that is made again.
func publishStore(bundle, staging, digest string) error {
	store, stamp := filepath.Join(bundle, storeName), filepath.Join(bundle, storeDigestName)
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(store); err != nil {
		return err
	}
	// MkdirTemp made it for its owner alone; a containerd root is 0711.
	if err := os.Chmod(staging, 0o711); err != nil {
		return err
	}
	if err := os.Rename(staging, store); err != nil {
		return err
	}
	// containerd does not flush unpacked files; the digest must not outlive them.
	syscall.Sync()
	return replaceFile(stamp, 0o644, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, digest)
		return err
	})
}

// removeStaging deletes what interrupted runs left behind.
func removeStaging(bundle string) error {
	left, err := filepath.Glob(filepath.Join(bundle, stagingPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps a second run out until unlock is called or the process ends.
func lock(bundle string) (unlock func() error, err error) {
	dir, err := os.Open(bundle)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", bundle, err), dir.Close())
	}
	return dir.Close, nil
}
