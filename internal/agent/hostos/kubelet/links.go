package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// linkDirectory is where the programs of the chosen version are linked.
const linkDirectory = "/usr/local/bin"

// linked are the programs of a version.
var linked = []string{"kubeadm", "kubectl", "kubelet"}

// Links returns where the programs on PATH point to, by name; empty where there is
// none. A file in the place of a link is the operator's, and an error.
func (v Versions) Links() (map[string]string, error) {
	links := map[string]string{}
	for _, program := range linked {
		path := filepath.Join(linkDirectory, program)
		target, err := os.Readlink(v.Root.Path(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, unavailable("%s is not a link, so that no version can be chosen with it; move it into %s/<version>/", path, v.Directories[0])
		}
		links[program] = target
	}
	return links, nil
}

// link replaces the links one by one; each is either old or new.
func (v Versions) link(from string) error {
	for _, program := range linked {
		if _, err := os.Stat(filepath.Join(v.Root.Path(from), program)); err != nil {
			continue
		}
		if err := replaceLink(v.Root, program, filepath.Join(from, program)); err != nil {
			return err
		}
	}
	return nil
}

func replaceLink(root hostfs.Root, program, target string) error {
	link := filepath.Join(root.Path(linkDirectory), program)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return durable.Link(target, link)
}

// RestoreLinks brings back the links that Links returned. Nil changes nothing.
func RestoreLinks(root hostfs.Root, before map[string]string) error {
	var errs []error
	for _, program := range ChangedLinks(root, before) {
		if target := before[program]; target != "" {
			errs = append(errs, replaceLink(root, program, target))
			continue
		}
		errs = append(errs, durable.Remove(filepath.Join(root.Path(linkDirectory), program)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take back the choice of a Kubernetes version: %w", err)
	}
	return nil
}

// ChangedLinks returns the programs whose links are not as before.
func ChangedLinks(root hostfs.Root, before map[string]string) []string {
	var changed []string
	for _, program := range linked {
		target, known := before[program]
		now, _ := os.Readlink(filepath.Join(root.Path(linkDirectory), program))
		if known && now != target {
			changed = append(changed, program)
		}
	}
	return changed
}
