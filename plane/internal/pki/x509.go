package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/durable"
)

func caTemplate() x509.Certificate {
	return x509.Certificate{
		Subject:               pkix.Name{CommonName: "slipway-plane"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

func (a *Authority) serverTemplate(name string, ips []net.IP, names []string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, ips...),
		DNSNames: append([]string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}, names...),
	}
}

func clientTemplate(c Client) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: c.User, Organization: c.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// matches tells whether cert says what a certificate made from t would say, and no more: a
// name that was given up is nobody's to vouch for.
func matches(cert, t *x509.Certificate) bool {
	return cert.Subject.CommonName == t.Subject.CommonName && slices.Equal(cert.Subject.Organization, t.Subject.Organization) &&
		sets.New(cert.DNSNames...).Equal(sets.New(t.DNSNames...)) && addresses(cert).Equal(addresses(t))
}

// addresses are those of a certificate, each in one form.
func addresses(cert *x509.Certificate) sets.Set[string] {
	all := sets.New[string]()
	for _, ip := range cert.IPAddresses {
		all.Insert(ip.String())
	}
	return all
}

func sign(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, pub, key)
}

// samePublicKey is false after a crash between the writes of key and certificate.
func samePublicKey(cert *x509.Certificate, key crypto.Signer) bool {
	pub, ok := cert.PublicKey.(*ecdsa.PublicKey)
	return ok && pub.Equal(key.Public())
}

// loadCert returns nil without an error when there is no file.
func loadCert(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM certificate: remove the file to have it made anew", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file to have it made anew", path, err)
	}
	return cert, nil
}

func loadOrMakeKey(path string) (crypto.Signer, error) {
	if err := ensureKey(path); err != nil {
		return nil, err
	}
	k, err := keyutil.PrivateKeyFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, not an ECDSA key", path, k)
	}
	return key, nil
}

func ensureKey(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a private key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a private key: %w", err)
	}
	return writePEM(path, keyutil.ECPrivateKeyBlockType, der)
}

func writePEM(path, kind string, der []byte) error {
	return durable.Write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
