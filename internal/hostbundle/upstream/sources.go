package upstream

// Sources say where upstream publishes, and who signs. The addresses have no slash at the end.
type Sources struct {
	// Kubernetes is followed by /VERSION/bin/linux/ARCHITECTURE/PROGRAM.
	Kubernetes string
	// Containerd, Runc and CNIPlugins are followed by /VERSION/FILE.
	Containerd, Runc, CNIPlugins string
	// Rekor is the transparency log that has the signatures of Kubernetes.
	Rekor string
	// Signer signs the programs of Kubernetes.
	Signer Signer
}

// Signer is an identity that a certificate of Sigstore names.
type Signer struct {
	// Identity is the subject, such as a service account.
	Identity string
	// Issuer is the OpenID Connect provider that vouches for it.
	Issuer string
}

// String names both.
func (s Signer) String() string { return s.Identity + " of " + s.Issuer }

// Upstream is where the projects publish their releases. The signer is the one that
// https://kubernetes.io/docs/tasks/administer-cluster/verify-signed-artifacts/ names.
var Upstream = Sources{
	Kubernetes: "https://dl.k8s.io/release",
	Containerd: "https://github.com/containerd/containerd/releases/download",
	Runc:       "https://github.com/opencontainers/runc/releases/download",
	CNIPlugins: "https://github.com/containernetworking/plugins/releases/download",
	Rekor:      "https://rekor.sigstore.dev",
	Signer:     Signer{Identity: "krel-staging@k8s-releng-prod.iam.gserviceaccount.com", Issuer: "https://accounts.google.com"},
}

// The versions beside Kubernetes that a request has by default: those that the node bundle of
// this tree has, with which the tests run.
const (
	DefaultContainerd = "v2.4.2"
	DefaultRunc       = "v1.5.2"
	DefaultCNIPlugins = "v1.9.1"
)
