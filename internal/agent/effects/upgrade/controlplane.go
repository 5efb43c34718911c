package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	// controlPlaneTimeout bounds kubeadm, which waits for four static pods, one after the
	// other, as long itself.
	controlPlaneTimeout = 25 * time.Minute
)

// ControlPlane is the API server of this host itself; *workload.Client implements it.
type ControlPlane interface {
	// Live returns an error unless the server says that it lives.
	Live(ctx context.Context) error
	ServerVersion(ctx context.Context) (string, error)
	Get(ctx context.Context) (*corev1.Node, error)
	Pods(ctx context.Context) ([]corev1.Pod, error)
}

// onControlPlane is the upgrade of a host of a control plane. Nothing is evicted, and the Node
// stays schedulable as it is: whether that could be changed or read would depend on what is
// being replaced.
type onControlPlane struct {
	Upgrader
	version  string
	progress operation.Progress

	// node is known to any API server of the cluster, own to this host's.
	node *corev1.Node
	own  ControlPlane
	// configuration is kubeadm's document of the cluster, server the manifest of the API server here.
	configuration string
	server        *corev1.Pod
	// etcd is nil when it runs elsewhere, and so is wanted, its manifest of the version.
	etcd   Etcd
	wanted *corev1.Pod
	// done says that nothing is left to do.
	done      bool
	restarted time.Time
}

// upgradeControlPlane brings the control plane on this host, and its kubelet, to the version.
// It may be repeated at any point, and only ever goes forward.
func (u Upgrader) upgradeControlPlane(ctx context.Context, version string, progress operation.Progress) error {
	c := &onControlPlane{Upgrader: u, version: version, progress: progress}
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"upgrade: mend", c.mend},
		{"upgrade: check", c.check},
		{"upgrade: try", c.try},
		{"upgrade: keep", c.keep},
		{"upgrade: snapshot", c.snapshot},
		{"upgrade: etcd", c.changeEtcd},
		{"upgrade: kubeadm", c.kubeadmNode},
		{"upgrade: static pods", c.awaitStaticPods},
		{"upgrade: switch", func(ctx context.Context) error { return u.Switch(ctx, version, progress) }},
		{"upgrade: kubelet", func(ctx context.Context) error { c.restarted = u.Now(); return u.restart(ctx) }},
		{"upgrade: ready", c.awaitNode},
		{"upgrade: finish", func(context.Context) error { return c.finish() }},
	} {
		if c.done {
			break
		}
		if err := operation.Step(progress, s.name, func() error { return s.run(ctx) }); err != nil {
			return err
		}
	}
	u.Log.Info("the control plane on this host is upgraded", "version", version)
	return nil
}

// hasControlPlane says whether the host is of a control plane. One of which a manifest is
// missing, as after a power cut, still is: kubeadm itself would take it for a worker.
func (u Upgrader) hasControlPlane(state journal.State) bool {
	if state.ControlPlaneUpgrade != nil {
		return true
	}
	for _, path := range []string{manifestPath(apiServer), controllerManagerConfig, apiServerKey} {
		if _, err := os.Stat(u.Root.Path(path)); err == nil {
			return true
		}
	}
	return false
}

// check refuses what must not be upgraded and waits for what is not ready to be, before
// anything is changed.
func (c *onControlPlane) check(ctx context.Context) error {
	if _, err := c.Versions.Program(ctx, c.version, "kubeadm"); err != nil {
		return err
	}
	node, err := c.Connect()
	if err == nil {
		c.own, err = c.ConnectLocal()
	}
	if err != nil {
		return operation.Failf(operation.ReasonNodeUnreachable, operation.RetryAfterReset, err, "reach the API server")
	}
	if c.node, err = node.Get(ctx); err != nil {
		return operation.Unreachable(err, "read the Node of this host")
	}
	if c.isUpgraded(ctx) {
		c.done = true
		return nil
	}
	if c.server, err = c.manifest(apiServer); err != nil {
		return err
	}
	for _, from := range []string{tagOf(imageOf(c.server)), c.node.Status.NodeInfo.KubeletVersion} {
		if err := checkSkew(from, c.version, ""); err != nil {
			return err
		}
	}
	if c.configuration, err = node.ClusterConfiguration(ctx); err != nil {
		return operation.Unreachable(err, "read kubeadm's configuration of the cluster")
	}
	external, err := c.configured()
	if err != nil {
		return err
	}
	if !external {
		if err := c.checkEtcd(ctx); err != nil {
			return err
		}
	}
	return c.kubeadm(ctx, c.version, c.progress, "phase", "preflight")
}

// isUpgraded reports whether nothing is left to do. The last step takes the record away.
func (c *onControlPlane) isUpgraded(ctx context.Context) bool {
	if c.progress.State().ControlPlaneUpgrade != nil || c.node.Status.NodeInfo.KubeletVersion != c.version || !c.Versions.Offered(ctx, c.version) {
		return false
	}
	return c.staticPods(ctx) == nil
}

// configured reads the document by which kubeadm makes the control plane. It has the
// version before any host does: who changes it alone upgrades the control plane.
func (c *onControlPlane) configured() (externalEtcd bool, _ error) {
	var config struct {
		KubernetesVersion string          `json:"kubernetesVersion"`
		CertificatesDir   string          `json:"certificatesDir"`
		FeatureGates      map[string]bool `json:"featureGates"`
		Etcd              struct {
			External *struct{} `json:"external"`
		} `json:"etcd"`
	}
	if err := yaml.Unmarshal([]byte(c.configuration), &config); err != nil {
		return false, operation.Failf(operation.ReasonControlPlaneHost, operation.RetryNever, err, "read kubeadm's configuration of the cluster")
	}
	switch {
	case config.KubernetesVersion != c.version:
		return false, &operation.Error{Reason: operation.ReasonControlPlaneOlder, Retry: operation.RetryLater, Message: fmt.Sprintf(
			"the cluster is to be of %.64q by its ConfigMap kubeadm-config, not of %s: change the version of the Cluster or of its control-plane object", config.KubernetesVersion, c.version)}
	case config.CertificatesDir != "" && config.CertificatesDir != pki:
		return false, refused("its certificates are in %.200s and not in %s", config.CertificatesDir, pki)
	case config.FeatureGates["RootlessControlPlane"]:
		return false, refused("kubeadm's feature gate RootlessControlPlane is on")
	}
	return config.Etcd.External != nil, nil
}

func refused(format string, args ...any) error {
	return &operation.Error{Reason: operation.ReasonControlPlaneHost, Retry: operation.RetryNever,
		Message: "this host of a control plane is not upgraded in place: " + fmt.Sprintf(format, args...) + "; replace the Machine"}
}

// checkEtcd sees to it that the cluster does without this host's member for a while.
func (c *onControlPlane) checkEtcd(ctx context.Context) error {
	manifest, err := c.manifest(etcd)
	if err != nil {
		return err
	}
	if c.etcd, err = c.ConnectEtcd(manifest); err != nil {
		return operation.Failf(operation.ReasonControlPlaneWaits, operation.RetryAfterReset, err, "reach the etcd of this host")
	}
	if err := c.isSpared(ctx); err != nil {
		return err
	}
	c.wanted, err = c.renderEtcd(ctx, manifest)
	return err
}

// isSpared refuses a cluster that has too few members, and waits for one of which a member
// is not healthy.
func (c *onControlPlane) isSpared(ctx context.Context) error {
	members, err := healthyMembers(ctx, c.etcd)
	if err == nil && members < host.FewestControlPlanes {
		return refused("etcd has %d members, and with fewer than %d none may be away", members, host.FewestControlPlanes)
	}
	return err
}

// healthyMembers is how many members etcd has, of which each is healthy.
func healthyMembers(ctx context.Context, etcd Etcd) (int, error) {
	members, err := etcd.Members(ctx)
	if err != nil {
		return 0, waits("the etcd of this host does not answer: %v", err)
	}
	for _, m := range members {
		switch {
		case m.Learner:
			return 0, waits("etcd member %s is a learner still", m.Name)
		case len(m.ClientURLs) == 0:
			return 0, waits("an etcd member has not started yet")
		}
		if err := etcd.Healthy(ctx, m.ClientURLs...); err != nil {
			return 0, waits("etcd member %s is not healthy: %v", m.Name, err)
		}
	}
	return len(members), nil
}

func waits(format string, args ...any) error {
	return &operation.Error{Reason: operation.ReasonControlPlaneWaits, Retry: operation.RetryLater,
		Message: "waiting for a healthy control plane: " + fmt.Sprintf(format, args...)}
}

// kubeadmNode has kubeadm move the other static pods, without etcd, and write the kubelet's
// configuration. Its addons are KubeadmControlPlane's.
func (c *onControlPlane) kubeadmNode(ctx context.Context) error {
	c.HandOver(ctx)
	return c.kubeadmWithin(ctx, controlPlaneTimeout, c.version, c.progress, "--etcd-upgrade=false", "--skip-phases=addon")
}

// awaitStaticPods waits until every static pod of this host runs as its manifest says and
// is of the version, by what the host itself tells.
func (c *onControlPlane) awaitStaticPods(ctx context.Context) error {
	return c.await(ctx, func() error {
		err := c.staticPods(ctx)
		if err == nil {
			return nil
		}
		return operation.Failf(operation.ReasonStaticPods, operation.RetryAfterReset, err, "the static pods of %s do not all run", c.version)
	})
}

// try has the programs of the version try what they will be started with, unless some may run already.
func (c *onControlPlane) try(ctx context.Context) error {
	if record := c.progress.State().ControlPlaneUpgrade; record != nil && record.Version == c.version {
		return nil
	}
	if err := c.tryKubelet(ctx, c.version); err != nil {
		return err
	}
	pods, err := c.render(ctx, []string{"control-plane", "all"}, stateless...)
	if err != nil {
		return err
	}
	if c.wanted != nil {
		pods = append(pods, c.wanted)
	}
	for _, pod := range pods {
		if err := c.tryStaticPod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// awaitNode waits for the kubelet that was restarted, which may have made the static pods
// anew.
func (c *onControlPlane) awaitNode(ctx context.Context) error {
	if err := c.ready(ctx, c.own, c.version, c.restarted); err != nil {
		return err
	}
	return c.awaitStaticPods(ctx)
}

// await repeats a look until it finds nothing wrong, or what is final, for at most readyTimeout.
func (u Upgrader) await(ctx context.Context, look func() error) error {
	for deadline := u.Now().Add(readyTimeout); ; {
		err := look()
		if err == nil || errors.As(err, new(final)) || u.Now().After(deadline) {
			return err
		}
		if err := u.Sleep(ctx, readyInterval); err != nil {
			return err
		}
	}
}

// staticPods says which static pod does not run, or not as of the version.
func (c *onControlPlane) staticPods(ctx context.Context) error {
	if err := c.own.Live(ctx); err != nil {
		return fmt.Errorf("the API server of this host: %w", err)
	}
	server, err := c.own.ServerVersion(ctx)
	if err == nil && server != c.version {
		err = fmt.Errorf("it is of %s", server)
	}
	if err != nil {
		return fmt.Errorf("the API server of this host: %w", err)
	}
	pods, err := c.own.Pods(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range stateless {
		manifest, err := c.manifest(name)
		if err == nil && tagOf(imageOf(manifest)) != c.version {
			err = fmt.Errorf("the manifest of %s is of %s", name, tagOf(imageOf(manifest)))
		}
		if err == nil {
			err = runs(pods, name, manifest)
		}
		errs = append(errs, err)
	}
	if c.etcd != nil {
		manifest, err := c.manifest(etcd)
		if err == nil {
			err = runs(pods, etcd, manifest)
		}
		errs = append(errs, err, c.etcd.Healthy(ctx))
	}
	return errors.Join(errs...)
}

// runs says why the pod of a manifest does not run. The kubelet makes the mirror pod anew
// when the manifest changes, so that its status is of the containers of this image.
func runs(pods []corev1.Pod, component string, manifest *corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || pod.Labels["component"] != component || pod.DeletionTimestamp != nil {
			continue
		}
		if got, want := imageOf(pod), imageOf(manifest); got != want {
			return fmt.Errorf("%s is still %s, not %s", component, got, want)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%s of %s is not ready (%s)", component, imageOf(pod), strings.ToLower(string(pod.Status.Phase)))
	}
	return fmt.Errorf("the kubelet shows no pod of %s", component)
}
