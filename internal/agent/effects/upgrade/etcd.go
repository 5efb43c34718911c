package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/durable"
)

const (
	// snapshotTimeout bounds a snapshot: 8 GiB, at 15 MiB/s.
	snapshotTimeout = 10 * time.Minute
	// spaceBeside is how much space a snapshot leaves on the disk, in bytes.
	spaceBeside = 256 << 20
	// snapshotsBegin is how the names of snapshots begin.
	snapshotsBegin = "etcd-before-"
)

// memberFlags are those of a member's first start. They count only without its data, and
// then those that kubeadm would write have it begin a cluster of its own.
var memberFlags = []string{"--initial-cluster=", "--initial-cluster-state="}

// Etcd is the member of this host; *localetcd.Client implements it.
type Etcd interface {
	// Healthy asks the member at one of the URLs, or this one.
	Healthy(ctx context.Context, urls ...string) error
	Version(ctx context.Context) (string, error)
	Members(ctx context.Context) ([]localetcd.Member, error)
	// Size of the database in bytes.
	Size(ctx context.Context) (int64, error)
	// Snapshot writes the database as of now, and verifies it.
	Snapshot(ctx context.Context, w io.Writer) (int64, error)
}

// renderEtcd returns the manifest of etcd as kubeadm of the version makes it.
func (c *onControlPlane) renderEtcd(ctx context.Context, current *corev1.Pod) (*corev1.Pod, error) {
	pods, err := c.render(ctx, []string{"etcd", "local"}, etcd)
	if err != nil {
		return nil, err
	}
	container := &pods[0].Spec.Containers[0]
	container.Command = withArguments(container.Command, current.Spec.Containers[0].Command, memberFlags...)
	return pods[0], nil
}

// render returns manifests as a phase of kubeadm of the version makes them. It changes nothing
// that runs.
func (c *onControlPlane) render(ctx context.Context, phase []string, components ...string) ([]*corev1.Pod, error) {
	program, err := c.Versions.Program(ctx, c.version, "kubeadm")
	if err != nil {
		return nil, err
	}
	config, err := c.initConfiguration()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(ours, "rendered")
	if err := os.RemoveAll(c.Root.Path(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Root.Path(dir), 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(c.Root.Path(dir)) }()
	file := c.Root.Path(filepath.Join(dir, "kubeadm.conf"))
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, kubeadmTimeout)
	defer cancel()
	args := slices.Concat([]string{"KUBEADM_INIT_DRYRUN_DIR=" + c.Root.Path(dir), program, "init", "phase"}, phase, []string{"--dry-run", "--config=" + file})
	if _, err := c.Runner.Run(limited, "env", args...); err != nil {
		return nil, operation.Failf(operation.ReasonKubeadmFailed, operation.RetryAfterReset, err,
			"have kubeadm of %s tell its static pods; its output is in %s on the host", c.version, bootstrap.LogFile)
	}
	pods := make([]*corev1.Pod, len(components))
	for i, component := range components {
		data, err := c.Root.ReadFile(filepath.Join(dir, component+".yaml"))
		if err == nil {
			pods[i], err = parseManifest(data)
		}
		if err != nil {
			return nil, operation.Failf(operation.ReasonKubeadmFailed, operation.RetryAfterReset, err, "read the manifest of %s that kubeadm of %s makes", component, c.version)
		}
	}
	return pods, nil
}

// initConfiguration is what kubeadm has to know of this host besides the cluster. Of that it leaves
// the feature gates out: an upgrade passes over those that kubeadm of the version has dropped and
// `kubeadm init` does not, and the one that changes the manifest of etcd is refused before.
func (c *onControlPlane) initConfiguration() ([]byte, error) {
	cluster := map[string]any{}
	if err := yaml.Unmarshal([]byte(c.configuration), &cluster); err != nil {
		return nil, err
	}
	delete(cluster, "featureGates")
	address := ""
	for _, arg := range c.server.Spec.Containers[0].Command {
		if value, found := strings.CutPrefix(arg, "--advertise-address="); found {
			address = value
		}
	}
	apiVersion, _ := cluster["apiVersion"].(string)
	if apiVersion == "" || address == "" {
		return nil, refused("the manifest of %s names no address, or kubeadm's configuration no apiVersion", apiServer)
	}
	host, err1 := yaml.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": "InitConfiguration",
		"localAPIEndpoint": map[string]any{"advertiseAddress": address},
		"nodeRegistration": map[string]any{"name": c.node.Name, "criSocket": "unix://" + c.CRISocket},
	})
	rest, err2 := yaml.Marshal(cluster)
	return slices.Concat(host, []byte("---\n"), rest), errors.Join(err1, err2)
}

// changesEtcd says whether the version brings a newer etcd than that of the manifest.
func (c *onControlPlane) changesEtcd() (bool, error) {
	if c.etcd == nil {
		return false, nil
	}
	current, err := c.manifest(etcd)
	if err != nil {
		return false, err
	}
	is, err1 := version.ParseGeneric(tagOf(imageOf(current)))
	shall, err2 := version.ParseGeneric(tagOf(imageOf(c.wanted)))
	if err1 == nil && err2 == nil && shall.LessThan(is) {
		// As kubeadm: an etcd is never taken down to an older one.
		return false, nil
	}
	return imageOf(current) != imageOf(c.wanted), nil
}

// snapshot has the state of the cluster before a new etcd touches it. It is for people who
// have to begin a cluster anew. Nothing of an upgrade restores it: a member that went back
// to it would have forgotten what it told the others that it has.
func (c *onControlPlane) snapshot(ctx context.Context) error {
	if changes, err := c.changesEtcd(); err != nil || !changes {
		return err
	}
	file := filepath.Join(ours, snapshotsBegin+c.version+".db")
	if !c.taken(c.progress.State().EtcdSnapshot) {
		size, err := c.takeSnapshot(ctx, file)
		if err != nil {
			return err
		}
		if err := c.progress.Update(func(s *journal.State) {
			s.EtcdSnapshot = &journal.EtcdSnapshot{Path: file, Size: size, Before: c.version, Time: c.Now()}
		}); err != nil {
			return err
		}
	}
	return c.removeFormer(file)
}

// removeFormer removes every snapshot but one, and what a crash left of others: each is as large
// as the database.
func (c *onControlPlane) removeFormer(file string) error {
	all, err := filepath.Glob(filepath.Join(c.Root.Path(ours), snapshotsBegin+"*"))
	for _, path := range all {
		if path != c.Root.Path(file) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// taken says whether the snapshot of this very upgrade is there.
func (c *onControlPlane) taken(s *journal.EtcdSnapshot) bool {
	record := c.progress.State().ControlPlaneUpgrade
	if s == nil || record == nil || s.Before != c.version {
		return false
	}
	info, err := os.Stat(c.Root.Path(s.Path))
	return err == nil && info.Size() == s.Size
}

func (c *onControlPlane) takeSnapshot(ctx context.Context, file string) (size int64, _ error) {
	fail := func(err error) (int64, error) {
		return 0, operation.Failf(operation.ReasonEtcdSnapshot, operation.RetryAfterReset, err, "take a snapshot of etcd into %s", file)
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	wants, err := c.etcd.Size(ctx)
	if err != nil {
		return fail(err)
	}
	if free, _, err := c.Root.Space(ours); err != nil || free < wants+spaceBeside {
		return fail(errors.Join(err, fmt.Errorf("%d MiB are free there and %d MiB are wanted; make room", free>>20, (wants+spaceBeside)>>20)))
	}
	path := c.Root.Path(file)
	partial := path + ".partial"
	err = durable.Stream(partial, 0o600, func(w io.Writer) error {
		size, err = c.etcd.Snapshot(ctx, w)
		return err
	})
	if err == nil {
		err = durable.Rename(partial, path)
	}
	if err != nil {
		_ = durable.Remove(partial)
		return fail(err)
	}
	return size, nil
}

// changeEtcd renews the certificates of etcd and has the kubelet start the new one on the data
// it has. kubeadm would do so, too, and on a failure copy the data back as they were before:
// what this member has acknowledged since, the others count on.
func (c *onControlPlane) changeEtcd(ctx context.Context) error {
	if c.etcd == nil {
		return nil
	}
	for _, certificate := range []string{"etcd-server", "etcd-peer", "etcd-healthcheck-client"} {
		if err := c.runKubeadm(ctx, kubeadmTimeout, c.version, "certs", "renew", certificate); err != nil {
			return err
		}
	}
	changes, err := c.changesEtcd()
	if err != nil {
		return err
	}
	if changes {
		data, err := yaml.Marshal(c.wanted)
		if err != nil {
			return err
		}
		// The check may be long ago, and another host may be at the same.
		if err := c.isSpared(ctx); err != nil {
			return err
		}
		c.HandOver(ctx)
		if err := durable.Write(c.Root.Path(manifestPath(etcd)), data, 0o600); err != nil {
			return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "write the manifest of etcd")
		}
	}
	return c.awaitEtcd(ctx)
}

// awaitEtcd waits until the member of this host is the one of its manifest, and all members
// are healthy.
func (c *onControlPlane) awaitEtcd(ctx context.Context) error {
	manifest, err := c.manifest(etcd)
	if err != nil {
		return err
	}
	wants, _ := version.ParseGeneric(tagOf(imageOf(manifest)))
	return c.await(ctx, func() error {
		// Its certificate is another one now.
		member, err := c.ConnectEtcd(manifest)
		if err == nil {
			c.etcd = member
			err = c.isHealthy(ctx, wants)
		}
		if err != nil {
			return operation.Failf(operation.ReasonControlPlaneWaits, operation.RetryAfterReset, err, "etcd %s is not healthy; see its log on the host", tagOf(imageOf(manifest)))
		}
		return nil
	})
}

func (c *onControlPlane) isHealthy(ctx context.Context, wants *version.Version) error {
	if err := c.etcd.Healthy(ctx); err != nil {
		return err
	}
	text, err := c.etcd.Version(ctx)
	if err != nil {
		return err
	}
	is, err := version.ParseGeneric(text)
	if err == nil && wants != nil && is.LessThan(wants) {
		return fmt.Errorf("it is of %s", text)
	}
	return c.isSpared(ctx)
}
