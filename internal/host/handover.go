package host

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/text"
)

// HandOver tells agents which management cluster takes them over.
type HandOver struct {
	// Kubeconfig is the bootstrap kubeconfig of that management cluster.
	Kubeconfig []byte
	// Signature of Kubeconfig and Expires by the management cluster that hands over.
	Signature []byte
	// Expires is when nobody follows it any more. Zero has expired.
	Expires time.Time `json:"expires"`
}

// ReadHandOver is the hand-over in the data of its Secret. A time that is none is zero.
func ReadHandOver(data map[string][]byte) HandOver {
	expires, _ := time.Parse(time.RFC3339, string(data[infrav1.HandOverExpirationKey]))
	return HandOver{Kubeconfig: data[infrav1.HandOverKubeconfigKey], Signature: data[infrav1.HandOverSignatureKey], Expires: expires}
}

// Expired says whether the hand-over has ended.
func (h HandOver) Expired(now time.Time) bool { return !now.Before(h.Expires) }

// ByHand says that the operator brings the agents to the other management cluster.
func (h HandOver) ByHand() bool { return len(strings.TrimSpace(string(h.Kubeconfig))) == 0 }

// Revision names the hand-over in announcements and reports. The signature brings Expires into it.
func (h HandOver) Revision() string {
	sum := sha256.Sum256(append([]byte(hex.EncodeToString(h.Signature)+"\n"), h.Kubeconfig...))
	return hex.EncodeToString(sum[:8])
}

// Sign returns the signature of the hand-over for the agents of a namespace. The same input
// gives the same signature.
func (h HandOver) Sign(key ed25519.PrivateKey, namespace string) []byte {
	return ed25519.Sign(key, h.signed(namespace))
}

// errSignature is what Verify returns for any doubt about the signature.
var errSignature = errors.New("it is not signed by the management cluster that this agent trusts")

// Verify fails unless signer signed the hand-over for the namespace.
func (h HandOver) Verify(signer ed25519.PublicKey, namespace string) error {
	if len(signer) != ed25519.PublicKeySize || !ed25519.Verify(signer, h.signed(namespace), h.Signature) {
		return errSignature
	}
	return nil
}

// signed binds the signature to its purpose, to the namespace, the tenant, and to its end: who
// serves the Secret later could prolong a hand-over that ended.
func (h HandOver) signed(namespace string) []byte {
	return append([]byte("slipway hand-over v1\n"+namespace+"\n"+h.Expires.UTC().Format(time.RFC3339Nano)+"\n"), h.Kubeconfig...)
}

// EncodeSigner is the form of a public key in HandOverSignerAnnotation.
func EncodeSigner(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// DecodeSigner returns nil unless encoded is a public key.
func DecodeSigner(encoded string) ed25519.PublicKey {
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil
	}
	return key
}

// Target is a management cluster as a bootstrap kubeconfig describes it.
type Target struct {
	// Server is the URL of the API server, https only.
	Server string
	// CA verifies it, PEM.
	CA []byte
	// ServerName overrides the name in its certificate. May be empty.
	ServerName string
	// Token is the bootstrap token.
	Token string
}

// ParseTarget reads a bootstrap kubeconfig. All that agents get by way of a hand-over
// must stand in it: it may neither name files nor run programs, nor leave the server
// unverified.
func ParseTarget(kubeconfig []byte) (Target, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return Target{}, fmt.Errorf("it is no kubeconfig: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return Target{}, errors.New("it has no current-context")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return Target{}, fmt.Errorf("the cluster or the user of context %q is missing", config.CurrentContext)
	}
	server, err := url.Parse(cluster.Server)
	switch {
	case err != nil || server.Scheme != "https" || server.Host == "":
		return Target{}, fmt.Errorf("the server must be an https URL, not %q", cluster.Server)
	case cluster.InsecureSkipTLSVerify || len(cluster.CertificateAuthorityData) == 0:
		return Target{}, errors.New("certificate-authority-data is required, and insecure-skip-tls-verify not allowed")
	case user.Token == "":
		return Target{}, errors.New("the user has no token; make a bootstrap token of the other management cluster")
	case user.Exec != nil || user.AuthProvider != nil || user.ClientCertificate != "" || user.TokenFile != "" || cluster.CertificateAuthority != "" || cluster.ProxyURL != "":
		return Target{}, errors.New("it must hold server, CA and token, and name no file, program or proxy")
	}
	return Target{Server: cluster.Server, CA: cluster.CertificateAuthorityData, ServerName: cluster.TLSServerName, Token: user.Token}, nil
}

// HandOverReport is what an agent says of a hand-over.
type HandOverReport struct {
	Revision string
	// Waiting tells why the agent is not ready; empty when it is.
	Waiting string
}

// maxReport bounds a report: it is in an annotation.
const maxReport = 512

// String is the form of HandOverReportAnnotation.
func (r HandOverReport) String() string {
	if r.Waiting == "" {
		return r.Revision + " Ready"
	}
	text := r.Revision + " Waiting " + text.OneLine(r.Waiting)
	return strings.ToValidUTF8(text[:min(len(text), maxReport)], "")
}

// ParseHandOverReport reads the annotation. Anything else is no report.
func ParseHandOverReport(text string) (HandOverReport, bool) {
	revision, rest, _ := strings.Cut(text, " ")
	state, message, _ := strings.Cut(rest, " ")
	switch {
	case revision == "":
		return HandOverReport{}, false
	case state == "Ready":
		return HandOverReport{Revision: revision}, true
	case state == "Waiting" && message != "":
		return HandOverReport{Revision: revision, Waiting: message}, true
	default:
		return HandOverReport{}, false
	}
}

// handOverHowTo ends the message of a host that nobody hands over.
const handOverHowTo = "Put a bootstrap kubeconfig of the target under the key " + infrav1.HandOverKubeconfigKey + " of Secret " +
	infrav1.HandOverSecretName + " (type " + infrav1.HandOverSecretType + ") in this namespace; an empty one says that you bring the agents there by hand"

// HomeFile is in the state directory of an agent once its host was handed over to
// another management cluster, and holds a Home as JSON. It replaces the configured
// bootstrap kubeconfig, which names the first one.
const HomeFile = "handed-over.json"

// Home is the management cluster that a host was handed over to.
type Home struct {
	// Kubeconfig is the bootstrap kubeconfig of the management cluster.
	Kubeconfig []byte `json:"kubeconfig"`
	// Supersedes is the digest of the configured bootstrap kubeconfig at that time,
	// empty without one. Any other was configured later, and wins.
	Supersedes string `json:"supersedes,omitempty"`
}

// ParseHome reads the content of a HomeFile.
func ParseHome(data []byte) (Home, error) {
	var h Home
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%s is damaged: %w; remove it and copy a bootstrap kubeconfig to the host", HomeFile, err)
	}
	return h, nil
}

// Target is the management cluster of a Home.
func (h Home) Target() (Target, error) {
	target, err := ParseTarget(h.Kubeconfig)
	if err != nil {
		return target, fmt.Errorf("%s: %w", HomeFile, err)
	}
	return target, nil
}

// Recognize judges the Host that an agent finds in another management cluster or namespace, by
// the hostID of the agent and the claim generation that it has served: it must be the same
// host, and not of an earlier time, as the copy of a backup is.
func Recognize(there *infrav1.Host, hostID string, generation int64) error {
	switch {
	case there.Spec.HostID != hostID:
		return fmt.Errorf("the Host there is of another machine: its hostID is %s", there.Spec.HostID)
	case there.Spec.ClaimGeneration < generation:
		return fmt.Errorf("the Host there is of an earlier time: claim generation %d, and this machine has served %d", there.Spec.ClaimGeneration, generation)
	}
	return nil
}

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
