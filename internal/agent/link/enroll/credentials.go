package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/atomicfile"
)

// parseCertificate pairs a PEM certificate with the key. It fails when the
// certificate is for another key or user, or is not valid now.
func parseCertificate(data []byte, key *ecdsa.PrivateKey, user string, now time.Time) (*tls.Certificate, error) {
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
	case leaf.Subject.CommonName != user:
		return nil, fmt.Errorf("it is for %q, not for %q", leaf.Subject.CommonName, user)
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
	cert, err := parseCertificate(data, key, e.user(), e.Now())
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
	path := e.BootstrapKubeconfig
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(e.StateDir, kubeconfigFile)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("neither %s nor an enrollment exists; copy a bootstrap kubeconfig to the host (slipway host token makes one)", e.BootstrapKubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %s: %w", path, err)
	}
	return &rest.Config{
		Host: config.Host, APIPath: config.APIPath,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: config.CAFile, CAData: config.CAData, ServerName: config.ServerName, Insecure: config.Insecure,
		},
	}, nil
}

// bootstrap returns the configuration with the bootstrap token.
func (e *Enroller) bootstrap() (*rest.Config, error) {
	if target, err := e.target(); err != nil || target != nil {
		if err != nil {
			return nil, err
		}
		return withToken(*target), nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", e.BootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the bootstrap kubeconfig %s: %w; copy one with a valid token to the host", e.BootstrapKubeconfig, err)
	}
	return config, nil
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
		TLSServerName: server.ServerName, InsecureSkipTLSVerify: server.Insecure,
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
