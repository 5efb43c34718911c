package link

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// hashPrefix is how the digest of a CA's public key begins, as kubeadm writes it.
const hashPrefix = "sha256:"

// BundleServer is where a management cluster serves host bundles.
type BundleServer struct {
	// HostPort of the server.
	HostPort string
	// TLS has the certificate of the agent, and verifies the server.
	TLS *tls.Config
}

// FindBundleServer asks the management cluster of an enrolled agent, by its kubeconfig.
func FindBundleServer(ctx context.Context, stateDir string) (BundleServer, error) {
	var none BundleServer
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(stateDir, "kubeconfig"))
	if errors.Is(err, fs.ErrNotExist) {
		return none, fmt.Errorf("this host is not enrolled, and bundles of a management cluster are for its hosts: run `slipway-agent join` and start the agent first, or bring the bundle by another way (%w)", err)
	}
	if err != nil {
		return none, err
	}
	tlsConfig, namespace, name, err := identity(config)
	if err != nil {
		return none, err
	}
	client, err := kube.New(config)
	if err != nil {
		return none, err
	}
	lease, err := client.GetLease(ctx, namespace, name)
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return none, fmt.Errorf("the management cluster %s does not know this host any more; see `slipway-agent status`: %w", config.Host, err)
	case err != nil:
		return none, fmt.Errorf("ask the management cluster where it serves host bundles: %w", err)
	}
	return serverOf(config.Host, lease.Annotations, tlsConfig)
}

// identity is the certificate of the agent, and the Host that it is for.
func identity(config *rest.Config) (tlsConfig *tls.Config, namespace, name string, err error) {
	pair, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
	if err != nil {
		return nil, "", "", fmt.Errorf("the certificate of the agent: %w", err)
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, "", "", fmt.Errorf("the certificate of the agent: %w", err)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, "", "", fmt.Errorf("the certificate of the agent ended at %s; start the agent, which gets another one, and see `slipway-agent status`", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	parts := strings.Split(strings.TrimPrefix(pair.Leaf.Subject.CommonName, infrav1.AgentUserPrefix), ":")
	if len(parts) < 2 {
		return nil, "", "", fmt.Errorf("the certificate of the agent is for %q, which is no host", pair.Leaf.Subject.CommonName)
	}
	server := rest.CopyConfig(config)
	server.CertFile, server.KeyFile, server.ServerName = "", "", ""
	if tlsConfig, err = rest.TLSConfigFor(server); err != nil {
		return nil, "", "", err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.Certificates = []tls.Certificate{pair}
	return tlsConfig, parts[0], parts[1], nil
}

// serverOf reads what a Lease says. A URL without a host is at the one of the management cluster,
// by whatever name or address this host knows it.
func serverOf(management string, annotations map[string]string, tlsConfig *tls.Config) (BundleServer, error) {
	address := annotations[infrav1.HostBundlesAnnotation]
	if address == "" {
		return BundleServer{}, errors.New("the management cluster serves no host bundles to this host (docs/host-software.md says how it does); bring the bundle by another way, or wait a minute if it was just turned on")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return BundleServer{}, fmt.Errorf("the management cluster says that it serves host bundles at %q, which is no https address", address)
	}
	if u.Hostname() == "" {
		known, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: management})
		if err != nil {
			return BundleServer{}, err
		}
		u.Host = net.JoinHostPort(known.Hostname(), u.Port())
	}
	if hash := annotations[infrav1.HostBundlesCAHashAnnotation]; hash != "" {
		if !strings.HasPrefix(hash, hashPrefix) {
			return BundleServer{}, fmt.Errorf("the management cluster tells its CA by %q; this agent knows %s: upgrade it", hash, hashPrefix)
		}
		pin(tlsConfig, u.Hostname(), hash)
	}
	return BundleServer{HostPort: u.Host, TLS: tlsConfig}, nil
}

// pin verifies a server by a CA that it sends along, whose public key has the digest, instead of
// by the CA of the management cluster.
func pin(config *tls.Config, host, hash string) {
	config.InsecureSkipVerify = true // VerifyConnection does it
	config.VerifyConnection = func(state tls.ConnectionState) error {
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		var found bool
		for _, c := range state.PeerCertificates[1:] {
			if sum := sha256.Sum256(c.RawSubjectPublicKeyInfo); hashPrefix+hex.EncodeToString(sum[:]) == hash {
				roots.AddCert(c)
				found = true
				continue
			}
			between.AddCert(c)
		}
		leaf := state.PeerCertificates[0]
		if !found {
			return x509.UnknownAuthorityError{Cert: leaf}
		}
		_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between})
		return err
	}
}
