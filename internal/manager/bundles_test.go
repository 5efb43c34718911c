package manager_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// Hosts are told by their Leases where bundles are, and fetch them there with the certificates
// by which the API server knows them: from each of two managers, until their Hosts are gone.
func TestHostBundles(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	dir, keys := servedBundle(t, testenv.Version)
	certificates := servingCertificates(t)
	serving := func(url string) (manager string, options bundleserver.Options) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o := bundleserver.DefaultOptions()
		o.Dir, o.Listeners, o.ClientCAFile, o.URL = dir, []net.Listener{l}, env.ClientCAFile, url
		if url == "" {
			o.URL = "https://" + l.Addr().String()
		}
		o.CertFile, o.KeyFile, o.CAFile = certificates+"/tls.crt", certificates+"/tls.key", certificates+"/ca.crt"
		return l.Addr().String(), o
	}
	options := optionsFor(namespace)
	first, bundles := serving("")
	options.HostBundles = bundles
	startManager(t, options)
	second, bundles := serving(bundles.URL)
	options.HostBundles = bundles
	startManager(t, options)

	testenv.NewHost(t, env.Client, namespace, "host-1", time.Now())
	state := enrolled(t, namespace, "host-1", testenv.HostID(namespace, "host-1"))
	var server link.BundleServer
	poll.Until(t, "the host is told where bundles are", func() (err error) {
		server, err = link.FindBundleServer(t.Context(), state)
		return err
	})
	if server.HostPort != first {
		t.Errorf("told %s, want %s", server.HostPort, first)
	}
	fetch := func(at string) error {
		source, err := registry.New(registry.Options{Address: registry.Scheme + at + "/" + registry.ManagementRepository, TLS: server.TLS})
		if err != nil {
			return err
		}
		root := hostfs.Root(t.TempDir())
		if err := os.MkdirAll(root.Path("/var/lib"), 0o755); err != nil {
			return err
		}
		_, err = (&software.Host{Root: root}).Fetch(t.Context(), software.Wanted{Version: testenv.Version}, keys, source)
		return err
	}
	for _, at := range []string{first, second} {
		if err := fetch(at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}

	// Another CA under the same name is not believed: hosts know its digest.
	for name, data := range mustRead(t, servingCertificates(t)) {
		if err := os.WriteFile(filepath.Join(certificates, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "a server of another CA is refused", func() error {
		var refused *hostbundle.Error
		if err := fetch(second); !errors.As(err, &refused) || refused.Reason != hostbundle.ReasonDenied || !strings.Contains(err.Error(), "certificate") {
			return fmt.Errorf("err = %w", err)
		}
		return nil
	})

	host := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "host-1"}}
	if err := env.Client.Delete(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a host that is gone is told nothing", func() error {
		if _, err := link.FindBundleServer(t.Context(), state); err == nil || !strings.Contains(err.Error(), "does not know this host") {
			return fmt.Errorf("err = %w", err)
		}
		return nil
	})
}

// enrolled is the state directory of an agent that has its working certificate.
func enrolled(t *testing.T, namespace, name, hostID string) string {
	t.Helper()
	user := env.User(t, infrav1.AgentUser(namespace, name, hostID), infrav1.AgentGroup)
	dir := t.TempDir()
	pair := filepath.Join(dir, "client.pem")
	config := clientcmdapi.NewConfig()
	config.Clusters["management"] = &clientcmdapi.Cluster{Server: server(user), CertificateAuthorityData: user.CAData}
	config.AuthInfos["agent"] = &clientcmdapi.AuthInfo{ClientCertificate: pair, ClientKey: pair}
	config.Contexts["agent"] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "agent"}
	config.CurrentContext = "agent"
	err := errors.Join(os.WriteFile(pair, append(user.CertData, user.KeyData...), 0o600), clientcmd.WriteToFile(*config, filepath.Join(dir, "kubeconfig")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func server(config *rest.Config) string {
	if strings.Contains(config.Host, "://") {
		return config.Host
	}
	return "https://" + config.Host
}

// servedBundle is a store with a bundle for this machine.
func servedBundle(t *testing.T, version string) (dir string, keys hostbundle.PublicKeys) {
	t.Helper()
	in := t.TempDir()
	signer, keys, _ := bundlesource.NewKeys(t)
	w, err := hostbundle.NewWriter(filepath.Join(in, "layout"), signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "hyperkube"), []byte("hyperkube"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := w.Component("kubernetes", version, []hostbundle.Source{{Path: "hyperkube", From: filepath.Join(in, "hyperkube"), Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(w.Bundle(version, hostbundle.Contents{
		KubernetesVersion: version, Architecture: runtime.GOARCH, Components: []hostbundle.Component{c},
		Links: []hostbundle.Link{
			{Path: fakehost.Directory + "/" + version + "/kubelet", Component: "kubernetes", Target: "hyperkube"},
			{Path: fakehost.Directory + "/" + version + "/kubeadm", Component: "kubernetes", Target: "hyperkube"},
		},
	}), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	from, err := hostbundle.OpenDirectory(filepath.Join(in, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	store := hostbundle.Store{Dir: filepath.Join(in, "store")}
	if _, err := store.Load(from, &keys); err != nil {
		t.Fatal(err)
	}
	return store.Dir, keys
}

// servingCertificates is a directory as cert-manager's Secret is mounted.
func servingCertificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter, template.SerialNumber = time.Now().Add(-time.Hour), time.Now().Add(time.Hour), big.NewInt(time.Now().UnixNano())
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "bundles"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	own := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	key, err := x509.MarshalECPrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"ca.crt": sign(ca, ca, keys[0], keys[0]), "tls.crt": sign(own, ca, keys[1], keys[0]),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mustRead(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = data
	}
	return found
}
