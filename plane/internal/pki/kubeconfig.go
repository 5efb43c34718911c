package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/durable"
)

// RESTConfig returns a client configuration for the identity of that name. It
// refers to the files, so that client-go takes over renewed certificates.
func (a *Authority) RESTConfig(client, server string) *rest.Config {
	return &rest.Config{
		Host: server,
		// it is a server of this machine: there is no wire to save
		DisableCompression: true,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   a.CACertFile(),
			CertFile: a.file(client + ".crt"),
			KeyFile:  a.file(client + ".key"),
		},
	}
}

// CABundle returns the PEM of the CA certificate.
func (a *Authority) CABundle() ([]byte, error) {
	ca, err := os.ReadFile(a.CACertFile())
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	return ca, nil
}

// writeAdminKubeconfig embeds the certificates, so that the file can be copied.
func (a *Authority) writeAdminKubeconfig() error {
	if a.opts.AdminKubeconfig == "" {
		return nil
	}
	ca, err := a.CABundle()
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(a.file(Admin.Name + ".crt"))
	if err != nil {
		return fmt.Errorf("read the administrator's certificate: %w", err)
	}
	key, err := os.ReadFile(a.file(Admin.Name + ".key"))
	if err != nil {
		return fmt.Errorf("read the administrator's key: %w", err)
	}
	const name = "slipway"
	kc := clientcmdapi.NewConfig()
	kc.Clusters[name] = &clientcmdapi.Cluster{Server: a.opts.AdminServer, CertificateAuthorityData: ca}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	data, err := clientcmd.Write(*kc)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	old, err := os.ReadFile(a.opts.AdminKubeconfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if bytes.Equal(old, data) {
		return nil
	}
	return durable.Write(a.opts.AdminKubeconfig, data, 0o600)
}
