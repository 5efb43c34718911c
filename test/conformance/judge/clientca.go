package judge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// clientCA lets an API server know its clients by certificates, as envtest's own does.
// Its key is on disk, so that kube-controller-manager can sign the requests of agents.
type clientCA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var _ envtest.Authn = (*clientCA)(nil)

func (c *clientCA) certFile() string { return filepath.Join(c.dir, "clients.crt") }
func (c *clientCA) keyFile() string  { return filepath.Join(c.dir, "clients.key") }

// Configure implements envtest.Authn.
func (c *clientCA) Configure(dir string, args *envtest.Arguments) error {
	c.dir = dir
	args.Set("client-ca-file", c.certFile())
	return nil
}

// Start implements envtest.Authn.
func (c *clientCA) Start() error {
	var err error
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	if c.cert, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "clients"}, c.key); err != nil {
		return err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(c.key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.keyFile(), key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.certFile(), pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.cert.Raw}), 0o600)
}

// AddUser implements envtest.Authn.
func (c *clientCA) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user.Name, Organization: user.Groups},
		NotBefore: c.cert.NotBefore, NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.CertData = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	config.KeyData, err = keyutil.MarshalPrivateKeyToPEM(key)
	return config, err
}

// Stop implements envtest.Authn.
func (c *clientCA) Stop() error { return nil }
