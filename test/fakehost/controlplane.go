package fakehost

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
)

// droppedGate is a feature gate that Cluster API leaves in the cluster's configuration, and that
// kubeadm of the new version refuses where it makes a cluster.
const droppedGate = "ControlPlaneKubeletLocalMode"

// EtcdVersions are the etcd of each Kubernetes version.
var EtcdVersions = map[string]string{"v1.35.4": "3.6.6", "v1.36.3": "3.6.8"}

// ControlPlane is the control plane on a pretended host. What runs follows from the files, as
// with a kubelet: a static pod whose manifest is broken, or a certificate of which, does not.
type ControlPlane struct {
	Kubelet
	node *Node
	// Members of etcd; the one without a URL is this host's.
	Members []localetcd.Member
	// Sick are the client URLs of members that are not healthy.
	Sick []string
	// Deaf is an API server of this host that never comes up in the new version.
	Deaf bool
	// Snapshots counts those taken, in the version of etcd that each was taken of.
	Snapshots []string
	// HandOvers counts how often the address was given away.
	HandOvers int
	// OnSnapshot, when it is not nil, is called when one has been taken.
	OnSnapshot func()

	// ran is the newest etcd that has had the data, and downgraded says that an older one
	// was started on them.
	ran        string
	downgraded bool
}

// components have these files that kubeadm renews.
var components = []struct{ name, secret string }{
	{"kube-apiserver", "pki/apiserver"}, {"kube-controller-manager", "controller-manager.conf"}, {"kube-scheduler", "scheduler.conf"},
}

// MakeControlPlane makes the host one of a control plane of three.
func (h *Host) MakeControlPlane(t *testing.T, version, target string) *ControlPlane {
	t.Helper()
	c := &ControlPlane{Kubelet: Kubelet{root: h.Root}, node: h.Node, Members: []localetcd.Member{
		{Name: "host-1", ClientURLs: []string{"https://10.0.0.5:2379"}},
		{Name: "host-2", ClientURLs: []string{"https://10.0.0.6:2379"}},
		{Name: "host-3", ClientURLs: []string{"https://10.0.0.7:2379"}},
	}}
	h.Node.Config = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " + target + "\netcd: {local: {dataDir: /var/lib/etcd}}\nfeatureGates: {" + droppedGate + ": true}\n"
	for _, of := range components {
		h.Put(t, "/etc/kubernetes/manifests/"+of.name+".yaml", staticPod(of.name, version))
		c.secret(of.secret)
	}
	c.secret("pki/etcd/server")
	h.Put(t, "/etc/kubernetes/pki/sa.key", "key")
	h.Put(t, "/etc/kubernetes/pki/sa.pub", "key")
	h.Put(t, kubeletConfig, "kind: KubeletConfiguration\n")
	h.Put(t, kubeletFlags, kubeletRuntime)
	h.StartKubelet(t)
	h.Put(t, "/etc/kubernetes/manifests/etcd.yaml", staticPod("etcd", version, "--initial-cluster=host-1=a,host-2=b", "--initial-cluster-state=existing"))
	h.Programs.Does = c.kubeadm
	h.Executor.Upgrader.ConnectLocal = func() (upgrade.ControlPlane, error) { return localServer{c.node, c}, nil }
	h.Executor.Upgrader.ConnectEtcd = func(*corev1.Pod) (upgrade.Etcd, error) { return localMember{c}, nil }
	h.Executor.Upgrader.HandOver = func(context.Context) { c.HandOvers++ }
	return c
}

func staticPod(component, version string, flags ...string) string {
	image := component + ":" + version
	if component == "etcd" {
		image = "etcd:" + EtcdVersions[version] + "-0"
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: component, Namespace: "kube-system", Labels: map[string]string{"component": component}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: component, Image: "registry.k8s.io/" + image, Command: append([]string{component, "--advertise-address=10.0.0.5"}, flags...),
		}}},
	}
	data, err := yaml.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// kubeadm is the program, as far as upgrades use it. It is told apart by its command line.
func (c *ControlPlane) kubeadm(line string) error {
	version := ""
	for v := range EtcdVersions {
		if strings.Contains(line, "/"+v+"/kubeadm ") || strings.Contains(" "+line, " kubeadm ") && c.offered() == v {
			version = v
		}
	}
	if version == "" {
		return nil
	}
	switch {
	case strings.Contains(line, " init phase etcd local --dry-run"):
		dir, _, _ := strings.Cut(strings.TrimPrefix(line, "env KUBEADM_INIT_DRYRUN_DIR="), " ")
		_, file, _ := strings.Cut(line, "--config=")
		config, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(config), droppedGate) || !strings.Contains(string(config), "dataDir: /var/lib/etcd") {
			return fmt.Errorf("kubeadm refuses its configuration %q: %w", config, err)
		}
		return os.WriteFile(filepath.Join(dir, "etcd.yaml"), []byte(staticPod("etcd", version, "--new", "--initial-cluster=host-1=a")), 0o600)
	case strings.Contains(line, " init phase control-plane all --dry-run"):
		dir, _, _ := strings.Cut(strings.TrimPrefix(line, "env KUBEADM_INIT_DRYRUN_DIR="), " ")
		for _, of := range components {
			if err := os.WriteFile(filepath.Join(dir, of.name+".yaml"), []byte(staticPod(of.name, version)), 0o600); err != nil {
				return err
			}
		}
		return nil
	case strings.Contains(line, " phase kubelet-config --dry-run"):
		return renderKubelet(line)
	case strings.Contains(line, " certs renew etcd-server"):
		return c.renew("pki/etcd/server")
	case strings.Contains(line, " upgrade node --etcd-upgrade=false"):
		return c.upgradeNode(version)
	}
	return nil
}

func (c *ControlPlane) offered() string {
	target, _ := os.Readlink(c.root.Path("/usr/local/bin/kubeadm"))
	return filepath.Base(filepath.Dir(target))
}

// upgradeNode does what kubeadm does, in its order and with its way of writing: each write
// is one that a power cut may come before.
func (c *ControlPlane) upgradeNode(version string) error {
	if _, err := os.Stat(c.path("manifests/kube-apiserver.yaml")); errors.Is(err, fs.ErrNotExist) {
		// kubeadm takes the host for a worker.
		return nil
	}
	for _, of := range components {
		file := c.path("manifests/" + of.name + ".yaml")
		was, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if string(was) == staticPod(of.name, version) {
			continue
		}
		if !c.intact(of.secret) {
			return fmt.Errorf("kubeadm cannot renew %s", of.secret)
		}
		if err := c.renew(of.secret); err != nil {
			return err
		}
		if err := c.writes(func() error { return os.Remove(file) }); err != nil {
			return err
		}
		if err := c.writes(func() error { return os.WriteFile(file, nil, 0o600) }); err != nil {
			return err
		}
		if err := c.writes(func() error { return os.WriteFile(file, []byte(staticPod(of.name, version)), 0o600) }); err != nil {
			return err
		}
	}
	return c.configureKubelet()
}

// renew replaces a certificate and its key, or a kubeconfig, as kubeadm does: the files are
// emptied first.
func (c *ControlPlane) renew(name string) error {
	for _, file := range secretFiles(name) {
		if err := c.writes(func() error { return os.WriteFile(c.path(file), nil, 0o600) }); err != nil {
			return err
		}
	}
	return c.writes(func() error { c.secret(name); return nil })
}

func secretFiles(name string) []string {
	if strings.HasSuffix(name, ".conf") {
		return []string{name}
	}
	return []string{name + ".key", name + ".crt"}
}

func (c *ControlPlane) path(name string) string {
	return c.root.Path(filepath.Join("/etc/kubernetes", name))
}

// secret writes a new certificate with its key, or a kubeconfig with both.
func (c *ControlPlane) secret(name string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		panic(err)
	}
	contents := [][]byte{private, cert}
	if strings.HasSuffix(name, ".conf") {
		config, err := yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "a",
			"clusters": []any{map[string]any{"name": "a", "cluster": map[string]any{"server": "https://10.0.0.5:6443"}}},
			"contexts": []any{map[string]any{"name": "a", "context": map[string]any{"cluster": "a", "user": "a"}}},
			"users":    []any{map[string]any{"name": "a", "user": map[string]any{"client-certificate-data": cert, "client-key-data": private}}},
		})
		if err != nil {
			panic(err)
		}
		contents = [][]byte{config}
	}
	for i, file := range secretFiles(name) {
		path := c.path(file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, contents[i], 0o600)); err != nil {
			panic(err)
		}
	}
}

func (c *ControlPlane) intact(name string) bool {
	if strings.HasSuffix(name, ".conf") {
		data, err := os.ReadFile(c.path(name))
		return err == nil && len(data) > 0
	}
	_, err := tls.LoadX509KeyPair(c.path(name+".crt"), c.path(name+".key"))
	return err == nil
}

// Pod is the static pod of a component as the kubelet runs it; nil when it does not.
func (c *ControlPlane) Pod(component string) *corev1.Pod {
	if !c.Starts() {
		return nil
	}
	data, err := os.ReadFile(c.path("manifests/" + component + ".yaml"))
	pod := &corev1.Pod{}
	if err != nil || yaml.Unmarshal(data, pod) != nil || len(pod.Spec.Containers) == 0 {
		return nil
	}
	for _, of := range components {
		if of.name == component && !c.intact(of.secret) {
			return nil
		}
	}
	if component == "etcd" && !c.intact("pki/etcd/server") {
		return nil
	}
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// version is that of the static pod of a component; empty when it does not run.
func (c *ControlPlane) version(component string) string {
	pod := c.Pod(component)
	if pod == nil {
		return ""
	}
	_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
	return strings.TrimSuffix(tag, "-0")
}

// Downgraded says whether an older etcd was ever started on data that a newer one had.
func (c *ControlPlane) Downgraded() bool { return c.downgraded }

func (c *ControlPlane) etcdVersion() (string, error) {
	is := c.version("etcd")
	if is == "" {
		return "", errors.New("connect: connection refused")
	}
	c.downgraded = c.downgraded || is < c.ran
	c.ran = max(c.ran, is)
	return is, nil
}

type localServer struct {
	*Node
	plane *ControlPlane
}

// Live implements upgrade.ControlPlane.
func (s localServer) Live(context.Context) error {
	if _, err := s.plane.etcdVersion(); err != nil {
		return err
	}
	if s.plane.Deaf || s.plane.version("kube-apiserver") == "" {
		return errors.New("connect: connection refused")
	}
	return nil
}

// ServerVersion implements upgrade.ControlPlane.
func (s localServer) ServerVersion(context.Context) (string, error) {
	return s.plane.version("kube-apiserver"), nil
}

// Pods implements upgrade.ControlPlane.
func (s localServer) Pods(context.Context) (pods []corev1.Pod, _ error) {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if pod := s.plane.Pod(name); pod != nil {
			pods = append(pods, *pod)
		}
	}
	return pods, nil
}

type localMember struct{ plane *ControlPlane }

// Healthy implements upgrade.Etcd.
func (m localMember) Healthy(_ context.Context, urls ...string) error {
	for _, url := range urls {
		for _, sick := range m.plane.Sick {
			if url == sick {
				return fmt.Errorf("%s is not healthy", url)
			}
		}
	}
	_, err := m.plane.etcdVersion()
	return err
}

// Version implements upgrade.Etcd.
func (m localMember) Version(context.Context) (string, error) { return m.plane.etcdVersion() }

// Members implements upgrade.Etcd.
func (m localMember) Members(context.Context) ([]localetcd.Member, error) {
	_, err := m.plane.etcdVersion()
	return m.plane.Members, err
}

// Size implements upgrade.Etcd.
func (m localMember) Size(context.Context) (int64, error) { return 8, nil }

// Snapshot implements upgrade.Etcd.
func (m localMember) Snapshot(_ context.Context, w io.Writer) (int64, error) {
	is, err := m.plane.etcdVersion()
	if err != nil {
		return 0, err
	}
	m.plane.Snapshots = append(m.plane.Snapshots, is)
	if m.plane.OnSnapshot != nil {
		m.plane.OnSnapshot()
	}
	n, err := io.WriteString(w, "snapshot")
	return int64(n), err
}
