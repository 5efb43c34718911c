package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/host"
)

// pair returns a PEM certificate with its key. It fails when the certificate is for another key or
// none of the users.
func pair(data []byte, key *ecdsa.PrivateKey, users ...string) (*tls.Certificate, error) {
	parsed := certificates(data)
	if len(parsed) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	leaf := parsed[0]
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, errors.New("it is for another key")
	case !slices.Contains(users, leaf.Subject.CommonName):
		return nil, fmt.Errorf("it is for %q, not for %q", leaf.Subject.CommonName, users[0])
	}
	c := &tls.Certificate{PrivateKey: key, Leaf: leaf}
	for _, certificate := range parsed {
		c.Certificate = append(c.Certificate, certificate.Raw)
	}
	return c, nil
}

// loadEnrollment returns the certificate of the identity key on disk; nil without one. One that has
// ended is the last choice. It is kept all the same, since the clock may be wrong until the network
// has set it: Session.enrolled decides when the certificate is used.
func (e *Enroller) loadEnrollment(key *ecdsa.PrivateKey, names names) *tls.Certificate {
	var ended *tls.Certificate
	for _, c := range []*tls.Certificate{e.load(enrollmentFile, key, names.enrollment), e.assignedEnrollment(key, names)} {
		switch {
		case c != nil && e.Now().Before(c.Leaf.NotAfter):
			return c
		case c != nil && ended == nil:
			ended = c
		}
	}
	return ended
}

func (e *Enroller) load(file string, key *ecdsa.PrivateKey, users ...string) *tls.Certificate {
	path := filepath.Join(e.StateDir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	c, err := pair(data, key, users...)
	if err != nil {
		e.Log.Warn("the certificate is not usable, asking for a new one", "file", path, "err", err)
		return nil
	}
	return c
}

// loadWorking returns the certificate on disk that the agent works with; nil without one.
// It may have ended: whoever was off for a day starts with what it has, and gets another
// one as soon as the management cluster answers.
func (e *Enroller) loadWorking(names names) *tls.Certificate {
	path := filepath.Join(e.StateDir, workingFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err == nil && !ok {
		err = errors.New("it holds no ECDSA key")
	}
	if err == nil {
		var c *tls.Certificate
		if c, err = pair(data, key, names.agent); err == nil {
			return c
		}
	}
	e.Log.Warn("the client certificate is not usable, asking for a new one", "file", path, "err", err)
	return nil
}

// saveEnrollment keeps a certificate of the identity key.
func (e *Enroller) saveEnrollment(c *tls.Certificate) error {
	return durable.Write(filepath.Join(e.StateDir, enrollmentFile), encode(c), 0o600)
}

// saveWorking keeps a certificate that the agent works with, and its key.
func (e *Enroller) saveWorking(c *tls.Certificate, key *ecdsa.PrivateKey) error {
	block, err := encodeKey(key)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(e.StateDir, workingFile), append(encode(c), block...), 0o600)
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

// loopbackNames are those that distributions give 127.0.0.1 and ::1 in /etc/hosts.
var loopbackNames = []string{"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"}

// Loopback reports whether the URL of a server names whatever machine looks it up. Names of
// hosts are the same in any case, and with a dot at their end (RFC 4343, RFC 1034 section 3.1).
func Loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return slices.Contains(loopbackNames, name) || strings.HasSuffix(name, ".localhost")
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
	working := filepath.Join(e.StateDir, workingFile)
	config.AuthInfos["agent"] = &clientcmdapi.AuthInfo{ClientCertificate: working, ClientKey: working}
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
	return durable.Write(path, data, 0o600)
}
