package software

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// Tidy uninstalls the versions that nothing uses: neither inUse, empty for none, nor the one whose
// kubelet is chosen, nor one whose programs run; nor one of the last so many that were
// installed. What a download left behind goes, too. It returns the versions that went.
func (h *Host) Tidy(ctx context.Context, inUse string, keep int) ([]string, Result, error) {
	unlock, err := h.lock()
	if err != nil {
		return nil, Result{}, err
	}
	defer unlock()
	record, err := readRecord(h.Root)
	if err != nil {
		return nil, Result{}, err
	}
	running, err := runningComponents(h.Root)
	if err != nil {
		return nil, Result{}, err
	}
	chosen, _ := os.Readlink(h.Root.Path("/usr/local/bin/kubelet"))
	unused := unused(record.Releases, func(r Release) bool {
		return r.KubernetesVersion == inUse || strings.Contains(chosen, "/kubernetes/"+r.KubernetesVersion+"/")
	}, running, keep)
	if len(unused) == 0 {
		if _, err := os.Lstat(h.Root.Path(staging)); err != nil {
			return nil, Result{}, nil
		}
		return nil, Result{}, h.disk(ctx).removeAll(staging)
	}
	result, err := h.uninstall(ctx, record, unused)
	return unused, result, err
}

// unused are the versions that go. A component that runs keeps its version only if no
// other one that stays has it, too.
func unused(releases []Release, used func(Release) bool, running map[digest.Digest]bool, keep int) []string {
	stays, shared := make([]bool, len(releases)), map[digest.Digest]bool{}
	stay := func(i int) {
		stays[i] = true
		for _, c := range releases[i].Components {
			shared[c.Layer] = true
		}
	}
	for i, r := range releases {
		if used(r) || i >= len(releases)-max(keep, 1) {
			stay(i)
		}
	}
	var gone []string
	for i, r := range slices.Backward(releases) {
		for _, c := range r.Components {
			if !stays[i] && running[c.Layer] && !shared[c.Layer] {
				stay(i)
			}
		}
		if !stays[i] {
			gone = append(gone, r.KubernetesVersion)
		}
	}
	slices.Sort(gone)
	return gone
}

// runningComponents are the components that a process of the host was started from.
func runningComponents(root hostfs.Root) (map[digest.Digest]bool, error) {
	programs, err := filepath.Glob(root.Path("/proc/[0-9]*/exe"))
	if err != nil {
		return nil, err
	}
	running := map[digest.Digest]bool{}
	for _, link := range programs {
		// A process that ended, and a thread of the kernel, lead nowhere.
		program, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if rest, found := strings.CutPrefix(program, store+"/"); found {
			encoded, _, _ := strings.Cut(rest, "/")
			running[digest.NewDigestFromEncoded(digest.SHA256, encoded)] = true
		}
	}
	return running, nil
}
