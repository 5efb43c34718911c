package vip

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The files of kubeadm. Of its kubeconfigs, only those of the controller manager
// and the scheduler name the host's own API server and not the shared address.
const (
	localConfig = "/etc/kubernetes/controller-manager.conf"
	adminConfig = "/etc/kubernetes/admin.conf"
	authority   = "/etc/kubernetes/pki/ca.crt"
	signingKey  = "/etc/kubernetes/pki/ca.key"
)

// certificateLife is how long a certificate is good for; a new one is made after
// half of it.
const certificateLife = 24 * time.Hour

// files are the contents on which a client depends: it is made anew when they
// change.
type files struct{ local, authority []byte }

func (s *LocalServer) readFiles() (files, error) {
	local, err := s.Root.ReadFile(localConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return files{}, ErrNoControlPlane
	}
	if err != nil {
		return files{}, err
	}
	ca, err := s.Root.ReadFile(authority)
	return files{local: local, authority: ca}, err
}

func (f files) equal(g files) bool {
	return bytes.Equal(f.local, g.local) && bytes.Equal(f.authority, g.authority)
}

// server returns a configuration that reaches the host's own API server, without
// credentials.
func (f files) server() (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(f.local)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", localConfig, err)
	}
	return rest.AnonymousClientConfig(config), nil
}

// server returns the configuration that the files give now.
func (s *LocalServer) server() (*rest.Config, error) {
	f, err := s.readFiles()
	if err != nil {
		return nil, err
	}
	return f.server()
}

// narrow adds the certificate that may do no more than Prepare allows. A host
// without the authority's key, as with an external authority, has admin.conf only.
func (s *LocalServer) narrow(server *rest.Config, f files) (*rest.Config, error) {
	key, err := keyutil.PrivateKeyFromFile(s.Root.Path(signingKey))
	if errors.Is(err, fs.ErrNotExist) {
		return s.admin(server)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", signingKey, err)
	}
	signer, ok := key.(crypto.Signer)
	authorities, err := cert.ParseCertsPEM(f.authority)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s and %s are no certificate authority: %w", authority, signingKey, err)
	}
	config := rest.CopyConfig(server)
	config.CertData, config.KeyData, err = sign(authorities[0], signer, s.Now())
	return config, err
}

// Seal implements vip.Server. Each control-plane host has the key of the cluster's authority, and nobody else.
func (s *LocalServer) Seal(message string) string {
	key, err := keyutil.PrivateKeyFromFile(s.Root.Path(signingKey))
	if err != nil {
		return ""
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return ""
	}
	own := hmac.New(sha256.New, der)
	own.Write([]byte(LeaseNamespace + "/" + LeaseName + "\n" + message))
	return hex.EncodeToString(own.Sum(nil))
}

// admin adds the credential of the cluster's administrator.
func (s *LocalServer) admin(server *rest.Config) (*rest.Config, error) {
	admin, err := clientcmd.BuildConfigFromFlags("", s.Root.Path(adminConfig))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", adminConfig, err)
	}
	config := rest.CopyConfig(server)
	config.CertData, config.KeyData = admin.CertData, admin.KeyData
	config.CertFile, config.KeyFile = admin.CertFile, admin.KeyFile
	config.BearerToken, config.BearerTokenFile = admin.BearerToken, admin.BearerTokenFile
	return config, nil
}

// sign makes a client certificate for User.
func sign(ca *x509.Certificate, signer crypto.Signer, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: ElectionUser},
		// The clocks of control-plane hosts differ.
		NotBefore:   now.Add(-time.Hour),
		NotAfter:    now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate for %s: %w", ElectionUser, err)
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key, err
}
