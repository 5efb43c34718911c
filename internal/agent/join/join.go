package join

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// timeout of the look at the server.
const timeout = 15 * time.Second

// Run verifies the server, then writes the agent's configuration, unless there is one
// that says the same, and the bootstrap kubeconfig. It may be run again, with another
// token, too. A host of another management cluster or namespace is left alone.
func Run(ctx context.Context, o Options) error {
	c, err := config.Load(o.ConfigPath)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if missing {
		c = config.Default()
		c.Namespace, c.HostName = o.Namespace, o.HostName
	}
	if err := compare(c, o); err != nil {
		return err
	}
	keys, err := o.publicKeys()
	if err != nil {
		return err
	}
	if err := verify(ctx, o); err != nil {
		return err
	}
	bootstrap, err := BootstrapKubeconfig(o.Server, o.CA, o.Token)
	if err != nil {
		return err
	}
	if missing {
		if err := o.configure(c.Software.PublicKeyFile, keys); err != nil {
			return err
		}
	}
	return write(c.BootstrapKubeconfig, bootstrap, 0o600)
}

// publicKeys reads the keys that the host is to judge host bundles by; none without a file.
func (o Options) publicKeys() ([]byte, error) {
	if o.PublicKeyFile == "" {
		return nil, nil
	}
	keys, err := os.ReadFile(o.PublicKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--public-key: %w", err)
	}
	if _, err := hostbundle.ParsePublicKeys(keys); err != nil {
		return nil, fmt.Errorf("--public-key %s: %w", o.PublicKeyFile, err)
	}
	return keys, nil
}

// configure writes the agent's configuration, after the keys that it speaks of.
func (o Options) configure(keyFile string, keys []byte) error {
	content := Configuration(o.Namespace, o.HostName)
	if keys != nil {
		if err := write(keyFile, keys, 0o644); err != nil {
			return err
		}
		content = fmt.Appendf(content, "software:\n  management: %s\n", infrav1.HostSoftwareManaged)
	}
	return write(o.ConfigPath, content, 0o644)
}

// Configuration is the content of the agent's configuration, for a host whose operator
// installs Kubernetes versions.
func Configuration(namespace, hostName string) []byte {
	data := fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nnamespace: %s\n", config.APIVersion, config.Kind, scalar(namespace))
	if hostName != "" {
		data = fmt.Appendf(data, "hostName: %s\n", scalar(hostName))
	}
	return data
}

// scalar is a string as a value in YAML: with quotes where it would be read as a number, a
// truth value or nothing without them. 1234 and true are names of namespaces.
func scalar(s string) string {
	quoted, err := yaml.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(string(quoted), "\n")
}

// compare refuses to make a host another one.
func compare(c *config.AgentConfiguration, o Options) error {
	if c.Namespace != o.Namespace || o.HostName != "" && c.HostName != o.HostName {
		return fmt.Errorf("%s says namespace %s, hostName %q, and this command namespace %s, hostName %q; nothing was changed: remove the file if the host shall be another one",
			o.ConfigPath, c.Namespace, c.HostName, o.Namespace, o.HostName)
	}
	enrolled, err := clientcmd.LoadFromFile(filepath.Join(c.StateDir, config.KubeconfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, cluster := range enrolled.Clusters {
		if cluster.Server != o.Server {
			return fmt.Errorf("this host is enrolled at %s; nothing was changed. Hand it over from there, or delete its Host there and remove %s", cluster.Server, c.StateDir)
		}
	}
	return nil
}

// verify holds that the server has the CA's certificate. It sends nothing.
func verify(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse(o.Server)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.CA)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%s is not the server of the CA in this command; nothing was written, and the token was not sent: make a new command, and see who answers at that address: %w", o.Server, err)
	case errors.As(err, &invalid):
		return fmt.Errorf("the certificate of %s is not valid; is the clock of this host right? %w", o.Server, err)
	case err != nil:
		return fmt.Errorf("reach %s: %w", o.Server, err)
	}
	return connection.Close()
}

// BootstrapKubeconfig is the kubeconfig an agent enrolls with.
func BootstrapKubeconfig(server string, ca []byte, token string) ([]byte, error) {
	const name = "bootstrap"
	kc := clientcmdapi.NewConfig()
	kc.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	return clientcmd.Write(*kc)
}

func write(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.Write(path, data, mode)
}
