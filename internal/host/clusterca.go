package host

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
)

// HashCAs returns the hashes of the public keys of the certificates in a PEM bundle,
// in the form of kubeadm's --discovery-token-ca-cert-hash. They name a cluster: no
// other one has the private key. What is no certificate is passed over.
func HashCAs(bundle []byte) []string {
	var hashes []string
	for _, ca := range parseCAs(bundle) {
		if hash := hashCA(ca); !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// TrustedCAs returns those certificates of a PEM bundle whose hashes are given; none
// when no certificate is of that cluster.
func TrustedCAs(bundle []byte, hashes []string) []byte {
	var trusted []byte
	for _, ca := range parseCAs(bundle) {
		if slices.Contains(hashes, hashCA(ca)) {
			trusted = append(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
		}
	}
	return trusted
}

func hashCA(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func parseCAs(bundle []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, ca)
		}
	}
	return found
}
