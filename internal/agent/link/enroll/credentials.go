package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/atomicfile"
	"github.com/slipway-dev/slipway/internal/host"
)

// parseCertificate pairs a PEM certificate with the key. It fails when the
// certificate is for another key or none of the users, or is not valid now.
func parseCertificate(data []byte, key *ecdsa.PrivateKey, now time.Time, users ...string) (*tls.Certificate, error) {
	parsed := certificates(data)
	chain := make([][]byte, 0, len(parsed))
	for _, c := range parsed {
		chain = append(chain, c.Raw)
	}
	if len(chain) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil, err
	}
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, errors.New("it is for another key")
	case !slices.Contains(users, leaf.Subject.CommonName):
		return nil, fmt.Errorf("it is for %q, not for %q", leaf.Subject.CommonName, users[0])
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("it expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}

// loadCertificate returns the usable certificate on disk; nil without one.
func (e *Enroller) loadCertificate(key *ecdsa.PrivateKey) *tls.Certificate {
	path := filepath.Join(e.StateDir, certificateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	user, err := e.user(key)
	if err != nil {
		return nil
	}
	cert, err := parseCertificate(data, key, e.Now(), user, host.FormerAgentUser(e.Namespace, e.HostName))
	if err != nil {
		e.Log.Warn("the client certificate is not usable, asking for a new one", "file", path, "why", err)
		return nil
	}
	return cert
}

// server returns where the management cluster is: the one the host was handed over
// to; else the bootstrap kubeconfig wins while it exists, so that an operator can
// correct an address in one place.
func (e *Enroller) server() (*rest.Config, error) {
	if target, err := e.target(); err != nil || target != nil {
		if err != nil {
			return nil, err
		}
		return serverOf(*target), nil
	}
	if _, err := os.Stat(e.BootstrapKubeconfig); !errors.Is(err, fs.ErrNotExist) {
		target, err := e.configured()
		if err != nil {
			return nil, err
		}
		return serverOf(target), nil
	}
	path := filepath.Join(e.StateDir, kubeconfigFile)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("neither %s nor an enrollment exists; copy a bootstrap kubeconfig to the host (slipway host token makes one)", e.BootstrapKubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %s: %w", path, err)
	}
	if config.Insecure || !strings.HasPrefix(config.Host, "https://") {
		return nil, fmt.Errorf("the kubeconfig %s does not verify its server; enroll the host again with a bootstrap kubeconfig that does", path)
	}
	return &rest.Config{
		Host: config.Host, APIPath: config.APIPath,
		TLSClientConfig: rest.TLSClientConfig{CAFile: config.CAFile, CAData: config.CAData, ServerName: config.ServerName},
	}, nil
}

// configured is the management cluster of the bootstrap kubeconfig.
func (e *Enroller) configured() (host.Target, error) {
	data, err := os.ReadFile(e.BootstrapKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return host.Target{}, fmt.Errorf("there is no bootstrap kubeconfig %s (the agent removes it once the host is enrolled); put one with a valid token there (slipway host token makes one)", e.BootstrapKubeconfig)
	}
	if err != nil {
		return host.Target{}, err
	}
	target, err := host.ParseTarget(data)
	if err == nil && !e.AllowLoopback && Loopback(target.Server) {
		err = fmt.Errorf("its server %s is on this host's own loopback, where any program may listen; use the address by which hosts reach the management cluster", target.Server)
	}
	if err != nil {
		return host.Target{}, fmt.Errorf("the bootstrap kubeconfig %s: %w", e.BootstrapKubeconfig, err)
	}
	return target, nil
}

// Loopback reports whether the URL of a server names whatever machine looks it up.
func Loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	name := u.Hostname()
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// bootstrap returns the configuration with the bootstrap token.
func (e *Enroller) bootstrap() (*rest.Config, error) {
	if target, err := e.target(); err != nil || target != nil {
		if err != nil {
			return nil, err
		}
		return withToken(*target), nil
	}
	target, err := e.configured()
	if err != nil {
		return nil, err
	}
	return withToken(target), nil
}

// saveKubeconfig writes a kubeconfig for the agent and for people on the host.
func (e *Enroller) saveKubeconfig(server *rest.Config) error {
	ca := server.CAData
	if len(ca) == 0 && server.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(server.CAFile); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["management"] = &clientcmdapi.Cluster{
		Server: server.Host + server.APIPath, CertificateAuthorityData: ca,
		TLSServerName: server.ServerName,
	}
	config.AuthInfos["agent"] = &clientcmdapi.AuthInfo{
		ClientCertificate: filepath.Join(e.StateDir, certificateFile), ClientKey: filepath.Join(e.StateDir, keyFile),
	}
	config.Contexts["agent"] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "agent", Namespace: e.Namespace}
	config.CurrentContext = "agent"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	path := filepath.Join(e.StateDir, kubeconfigFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return atomicfile.Write(path, data, 0o600)
}
