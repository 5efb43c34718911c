package bundleserver_test

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
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/mod/sumdb/note"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

const (
	older     = "v1.35.4"
	newer     = "v1.36.3"
	layerSize = 1 << 20
	hostID    = "0123456789abcdef0123456789abcdef0123"
)

// authority signs for a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate; of a server with an address, of a client without.
func (a *authority) sign(user string, group string, until time.Duration) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	if user == "" {
		template.IPAddresses, template.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// world is a management cluster's part of a test: hosts, and a server of bundles for them.
type world struct {
	t       testing.TB
	hosts   client.Client
	clients *authority
	server  *authority
	store   hostbundle.Store
	keys    hostbundle.PublicKeys
	signer  note.Signer
	public  string
	address string
	// layer is the size of each component, which does not compress, in bytes.
	layer int
	// layers is the number of components of a version besides the shared one; 1 when zero.
	layers int
	// metrics of the server.
	metrics *prometheus.Registry
}

func newWorld(t testing.TB, change ...func(*bundleserver.Options)) *world {
	t.Helper()
	w := &world{t: t, layer: layerSize, hosts: hostsOf(0), clients: newAuthority(t, "kubernetes"), server: newAuthority(t, "serving"),
		store: hostbundle.Store{Dir: filepath.Join(t.TempDir(), "store")}, metrics: prometheus.NewRegistry()}
	w.signer, w.keys, w.public = bundlesource.NewKeys(t)
	w.serve(change...)
	w.addHost("host-1")
	return w
}

func (w *world) serve(change ...func(*bundleserver.Options)) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.address = listener.Addr().String()
	o := w.options(w.t.TempDir())
	o.Listeners = []net.Listener{listener}
	for _, c := range change {
		c(&o)
	}
	server, err := bundleserver.New(o, bundleserver.Hosts{Reader: w.hosts}, logr.Discard())
	if err != nil {
		w.t.Fatal(err)
	}
	w.metrics.MustRegister(server.Collectors()...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// options of a server whose files are written to a directory.
func (w *world) options(dir string) bundleserver.Options {
	w.t.Helper()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return path
	}
	own := w.server.sign("", "", time.Hour)
	key, err := x509.MarshalECPrivateKey(own.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		w.t.Fatal(err)
	}
	o := bundleserver.DefaultOptions()
	o.Dir, o.URL = w.store.Dir, "https://"+w.address
	o.CertFile = write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	o.KeyFile = write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))
	o.CAFile, o.ClientCAFile = write("ca.crt", w.server.pem), write("client-ca.crt", w.clients.pem)
	return o
}

// sent is how much content the server sent, in bytes.
func (w *world) sent() int64 {
	w.t.Helper()
	return int64(w.metric("slipway_host_bundle_sent_bytes_total", nil))
}

func (w *world) metric(name string, labels map[string]string) float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return labels[l.GetName()] != l.GetValue() }) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// hostsOf are the Hosts of a management cluster, host-0 and so on.
func hostsOf(n int) client.Client {
	scheme := apiruntime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for i := range n {
		builder = builder.WithObjects(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "host-" + strconv.Itoa(i)}, Spec: infrav1.HostSpec{HostID: hostID}})
	}
	return builder.Build()
}

func (w *world) addHost(name string, change ...func(*infrav1.Host)) {
	w.t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Spec: infrav1.HostSpec{HostID: hostID}}
	for _, c := range change {
		c(h)
	}
	if err := w.hosts.Create(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
}

// agent is the TLS of a host's agent.
func (w *world) agent(name string) *tls.Config {
	w.t.Helper()
	return w.as(w.clients.sign(infrav1.AgentUser("prod", name, hostID), infrav1.AgentGroup, time.Hour))
}

// as is the TLS of a client that trusts the server.
func (w *world) as(certificates ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(w.server.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: certificates}
}

// get asks the server as a client.
func (w *world) get(config *tls.Config, path string, header ...string) (*http.Response, error) {
	w.t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	w.t.Cleanup(transport.CloseIdleConnections)
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: w.address, Opaque: path}, Header: http.Header{}}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		w.t.Cleanup(func() { _ = response.Body.Close() })
	}
	return response, err
}

// source is the server as an agent has it; at is another address of it.
func (w *world) source(name string, at ...string) *registry.Repository {
	w.t.Helper()
	address := append(at, w.address)[0]
	r, err := registry.New(registry.Options{Address: registry.Scheme + address + "/" + registry.ManagementRepository, TLS: w.agent(name)})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// layout writes bundles of both versions, which share a component.
func (w *world) layout(architecture string, signer note.Signer) string {
	w.t.Helper()
	in := w.t.TempDir()
	dir := filepath.Join(in, "layout")
	writer, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		w.t.Fatal(err)
	}
	component := func(name, version string) hostbundle.Component {
		from := filepath.Join(in, name+version)
		if _, err := os.Stat(from); err != nil {
			data := make([]byte, w.layer)
			_, _ = rand.Read(data)
			if err := os.WriteFile(from, data, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
		c, err := writer.Component(name, version, []hostbundle.Source{{Path: name, From: from, Mode: 0o755}})
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	for _, version := range []string{older, newer} {
		components := []hostbundle.Component{component("runc", "v1.5.2"), component("kubernetes", version)}
		for i := range w.layers - 1 {
			components = append(components, component("image-"+strconv.Itoa(i), version))
		}
		err := writer.Bundle(version, hostbundle.Contents{KubernetesVersion: version, Architecture: architecture,
			Components: components,
			Files:      []hostbundle.HostFile{{Path: "/etc/slipway/containerd.toml", Mode: 0o644, Content: "# " + version}},
			Links:      []hostbundle.Link{{Path: "/opt/slipway/kubernetes/" + version + "/kubelet", Component: "kubernetes", Target: "kubernetes"}}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// load puts the layout of a directory into the store.
func (w *world) load(dir string, versions ...string) []hostbundle.Version {
	w.t.Helper()
	d, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	loaded, err := w.store.Load(d, nil, versions...)
	if err != nil {
		w.t.Fatal(err)
	}
	return loaded
}

// loaded has bundles for this machine in the store.
func (w *world) loaded() *world {
	w.t.Helper()
	w.load(w.layout(runtime.GOARCH, w.signer))
	return w
}

// machine is the root of a small Debian.
func machine(t testing.TB) *software.Host {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	for _, dir := range []string{"/opt", "/usr/local/bin", "/var/lib/dpkg", "/etc/systemd/system"} {
		if err := os.MkdirAll(root.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &software.Host{Root: root}
}

// tree lists files, links and their content below a root.
func tree(t testing.TB, h *software.Host) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(string(h.Root), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		what := d.Type().String()
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", shortSum(data))
		case d.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " " + to
		}
		lines = append(lines, strings.TrimPrefix(path, string(h.Root))+" "+what)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func reasonOf(err error) hostbundle.Reason {
	var known *hostbundle.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}
