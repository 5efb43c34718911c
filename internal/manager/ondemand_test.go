package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// A Machine of a version that no host has waits until its host bundle is loaded; then the agent
// of a host fetches it from the manager with its own certificate, installs it, and goes on
// with the bootstrap, which finds it.
func TestVersionOnDemand(t *testing.T) {
	testenv.Skip(t)
	const version = "v1.91.0"
	namespace := env.Namespace(t)
	dir, keys := servedBundle(t, version)
	certificates := servingCertificates(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := bundleserver.DefaultOptions()
	o.Dir, o.Listeners, o.ClientCAFile, o.URL = dir, []net.Listener{l}, env.ClientCAFile, "https://"+l.Addr().String()
	o.CertFile, o.KeyFile, o.CAFile = certificates+"/tls.crt", certificates+"/tls.key", certificates+"/ca.crt"
	options := optionsFor(namespace)
	options.HostBundles = o
	startManager(t, options)

	testenv.NewCluster(t, env.Client, namespace)
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bootstrap-m1", Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte("#cloud-config\nruncmd: [\"true\"]\n")},
	})
	machine := testenv.NewMachine(t, env.Client, namespace, "m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = version })
	testenv.NewHost(t, env.Client, namespace, "host-1", time.Now())
	root := managedHost(t, namespace, "host-1", keys)

	poll.Until(t, "the machine says what it waits for", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if why := conditions.GetMessage(machine, infrav1.HostClaimedCondition); why != "No host available: 1 Kubernetes v1.91.0 not offered: neither installed nor in a KubernetesRelease for "+runtime.GOARCH+" (host-1)" {
			return fmt.Errorf("it waits: %s", why)
		}
		return nil
	})
	loaded, err := hostbundle.Store{Dir: dir}.List()
	if err != nil {
		t.Fatal(err)
	}
	digest := loaded[0].Digest.String()
	create(t, &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: version},
		Spec: infrav1.KubernetesReleaseSpec{Version: version, Digest: digest, Architectures: loaded[0].Architectures}})

	poll.Until(t, "the host has the version, and the bootstrap goes on", func() error {
		h := &infrav1.Host{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "host-1"}, h); err != nil {
			return err
		}
		op := ptr.Deref(h.Status.ObservedOperation, infrav1.ObservedOperation{})
		var steps []string
		for _, s := range op.Steps {
			steps = append(steps, s.Name)
		}
		want := infrav1.HostSoftwareRelease{Version: version, Digest: digest, Complete: ptr.To(true)}
		if !slices.Contains(h.Status.Inventory.KubernetesVersions, version) || len(h.Status.Software.Releases) != 1 || h.Status.Software.Releases[0].Digest != want.Digest ||
			len(steps) < 4 || !slices.Equal(steps[:3], []string{software.InstallStep, "bootstrap data", "Kubernetes version"}) {
			return fmt.Errorf("software %+v, steps %q, operation %+v", h.Status.Software, steps, op)
		}
		return nil
	})
	if got, err := os.ReadFile(root + fakehost.Directory + "/" + version + "/kubelet"); err != nil || string(got) != "hyperkube" {
		t.Errorf("the kubelet is %q: %v", got, err)
	}
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), o) })
}

// managedHost runs the agent of a host that installs versions, on a pretended host. It returns
// what stands for / there.
func managedHost(t *testing.T, namespace, name string, keys hostbundle.PublicKeys) string {
	t.Helper()
	h := fakehost.New(t)
	state := enrolled(t, namespace, name, testenv.HostID(namespace, name))
	log := slog.New(slog.DiscardHandler)
	changed := make(chan struct{}, 1)
	host := software.Host{Root: h.Root}
	h.Executor.Software = &software.Installer{
		Host: host, Keep: 2, Now: time.Now, Log: log, Changed: func() { changed <- struct{}{} },
		Has:  func(ctx context.Context, version string) bool { return h.Executor.Versions.Check(ctx, version) == nil },
		Keys: func() (hostbundle.PublicKeys, error) { return keys, nil },
		Sources: func(ctx context.Context) ([]software.Source, error) {
			server, err := link.FindBundleServer(ctx, state)
			if err != nil {
				return nil, err
			}
			source, err := registry.New(registry.Options{Address: registry.Scheme + server.HostPort + "/" + registry.ManagementRepository, TLS: server.TLS})
			return []software.Source{source}, err
		},
	}
	facts := func(ctx context.Context, _ inventory.Node) (inventory.Facts, error) {
		f := inventory.Facts{Inventory: infrav1.HostInventory{Architecture: runtime.GOARCH, KubernetesVersions: h.Executor.Versions.Installed(ctx)}}
		f.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		f.Software.Management = infrav1.HostSoftwareManaged
		releases, err := host.Installed()
		for _, r := range releases {
			f.Software.Releases = append(f.Software.Releases, infrav1.HostSoftwareRelease{Version: r.KubernetesVersion, Digest: r.Index.String()})
		}
		return f, err
	}
	agent, err := link.New(link.Options{
		Namespace: namespace, HostName: name, HostID: testenv.HostID(namespace, name), BootID: "boot-1",
		Config:  env.User(t, infrav1.AgentUser(namespace, name, testenv.HostID(namespace, name)), infrav1.AgentGroup),
		Journal: journal.InMemory(), Executor: h.Executor, Inventory: facts, InventoryChanged: changed,
		HeartbeatInterval: time.Second, LeaseDuration: time.Minute, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { agent.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return string(h.Root)
}
