package upgrade

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
)

// ours is where an upgrade keeps what it may need. A reset empties what is above.
const ours = kubernetes + "/slipway"

// keep copies what kubeadm writes on this host, as it is before that. kubeadm replaces
// manifests by two renames and certificates by truncation, and takes things back only as
// long as it runs: after a power cut, one of them may be missing or empty. A rerun
// keeps the copy that it finds, since by then the files may be new in part.
func (c *onControlPlane) keep(context.Context) error {
	record := c.progress.State().ControlPlaneUpgrade
	if record != nil && record.Version == c.version {
		return nil
	}
	kept := filepath.Join(ours, "before-"+c.version)
	if err := c.copyFiles(kept); err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "keep a copy of the files of the control plane in %s", kept)
	}
	if err := c.progress.Update(func(s *journal.State) {
		s.ControlPlaneUpgrade = &journal.ControlPlaneUpgrade{Version: c.version, Kept: kept}
	}); err != nil {
		return err
	}
	if record == nil {
		return nil
	}
	return os.RemoveAll(c.Root.Path(record.Kept))
}

// copyFiles copies the files into a directory that has nothing else then.
func (c *onControlPlane) copyFiles(into string) error {
	if err := os.RemoveAll(c.Root.Path(into)); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Root.Path(into), 0o700); err != nil {
		return err
	}
	files, err := controlPlaneFiles(c.Root.Path(kubernetes))
	if err != nil {
		return err
	}
	for _, name := range files {
		source, target := filepath.Join(c.Root.Path(kubernetes), name), filepath.Join(c.Root.Path(into), name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := copyFile(source, target); err != nil {
			return err
		}
	}
	if err := c.keepKubelet(filepath.Join(c.Root.Path(into), keptKubeletFiles)); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(c.Root.Path(ours)), durable.SyncDir(c.Root.Path(kubernetes)))
}

func copyFile(source, target string) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	return durable.Write(target, data, info.Mode().Perm())
}

// controlPlaneFiles lists, below dir, what kubeadm writes on a control-plane host.
func controlPlaneFiles(dir string) (names []string, _ error) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(name, "/")
		switch {
		case name == ".":
		case entry.IsDir() && top != "manifests" && top != "pki":
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasPrefix(filepath.Base(name), "."):
		case below || strings.HasSuffix(name, ".conf"):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// mend puts those files back that an upgrade left missing or broken. A file in order stays,
// old or new: kubeadm goes on from either. The manifest of etcd is never put back. It
// changes by one durable rename of our own, so that it is there; and when it is the
// new one, the new etcd may have run: there is no way back then but forward.
func (c *onControlPlane) mend(context.Context) error {
	record := c.progress.State().ControlPlaneUpgrade
	if record == nil {
		return nil
	}
	kept := c.Root.Path(record.Kept)
	names, err := controlPlaneFiles(kept)
	if errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("the copy of the files of the control plane is gone", "directory", record.Kept)
		return nil
	}
	if err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "read the copy of the files of the control plane in %s", record.Kept)
	}
	broken := map[string]bool{}
	for _, name := range names {
		if err := inOrder(filepath.Join(c.Root.Path(kubernetes), name)); err != nil && filepath.Join(kubernetes, name) != manifestPath(etcd) {
			c.Log.Warn("a file of the control plane is missing or broken; putting it back as it was before the upgrade", "file", name, "err", err)
			broken[name] = true
		}
	}
	for name := range broken {
		for _, each := range withSibling(name) {
			if err := copyFile(filepath.Join(kept, each), filepath.Join(c.Root.Path(kubernetes), each)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "put %s back", each)
			}
		}
	}
	return c.mendKubelet(filepath.Join(kept, keptKubeletFiles))
}

// withSibling is a file and, of a certificate or its key, the other one.
func withSibling(name string) []string {
	stem, found := strings.CutSuffix(name, ".crt")
	if !found {
		stem, found = strings.CutSuffix(name, ".key")
	}
	if !found {
		return []string{name}
	}
	return []string{stem + ".key", stem + ".crt"}
}

// inOrder says what is wrong with a file that kubeadm writes.
func inOrder(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	switch filepath.Ext(path) {
	case ".yaml":
		_, err = parseManifest(data)
	case ".conf":
		err = kubeconfigInOrder(path)
	case ".crt", ".key":
		stem := strings.TrimSuffix(path, filepath.Ext(path))
		if _, err := os.Stat(stem + ".key"); errors.Is(err, fs.ErrNotExist) {
			// The key of an authority may be elsewhere.
			return nil
		}
		if _, err := os.Stat(stem + ".crt"); errors.Is(err, fs.ErrNotExist) && filepath.Base(stem) == "sa" {
			return nil
		}
		_, err = tls.LoadX509KeyPair(stem+".crt", stem+".key")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

func kubeconfigInOrder(path string) error {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err == nil && len(config.CertData) > 0 {
		_, err = tls.X509KeyPair(config.CertData, config.KeyData)
	}
	return err
}

// finish forgets the upgrade, once no power cut can take back what kubeadm wrote. The
// snapshot of etcd stays.
func (c *onControlPlane) finish() error {
	record := c.progress.State().ControlPlaneUpgrade
	if record == nil {
		return nil
	}
	for _, dir := range []string{kubernetes, kubeletDir} {
		if err := c.flush(dir); err != nil {
			return err
		}
	}
	if err := c.progress.Update(func(s *journal.State) { s.ControlPlaneUpgrade = nil }); err != nil {
		return err
	}
	// What a crash leaves here, the next copy or a reset takes away.
	if err := os.RemoveAll(c.Root.Path(record.Kept)); err != nil {
		c.Log.Warn("the copy of the files of the control plane is left", "directory", record.Kept, "err", err)
	}
	return nil
}

// flush writes the file system of a directory of the host to the disk.
func (u Upgrader) flush(dir string) error {
	d, err := os.Open(u.Root.Path(dir))
	if err == nil {
		err = errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
	}
	if err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "flush %s to the disk", dir)
	}
	return nil
}
