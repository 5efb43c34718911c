package host

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ID is the identity of an agent: the SHA-256 of its public key in PKIX form, as
// 64 lowercase hexadecimal digits.
func ID(publicKey crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("encode the agent's public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// ParseAgentUser splits the user name of an agent; see infrav1.AgentUser. ok is false when
// user is anything else.
func ParseAgentUser(user string) (namespace, name string, ok bool) {
	rest, found := strings.CutPrefix(user, infrav1.AgentUserPrefix)
	if !found {
		return "", "", false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// FormerAgentUser is the user name that agents of v0.1 have in their certificates, without
// the key. No right is bound to it; with it an agent asks for its first certificate of
// today's form.
func FormerAgentUser(namespace, name string) string {
	return infrav1.AgentUserPrefix + namespace + ":" + name
}

// ParseProviderID splits slipway://<namespace>/<host>/<claimID>. ok is false when
// id is anything else.
func ParseProviderID(id string) (namespace, name, claimID string, ok bool) {
	rest, found := strings.CutPrefix(id, infrav1.ProviderIDPrefix)
	if !found {
		return "", "", "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// NodeNames are the names that a Node on the host may have: that of the Host and, since
// kubeadm names Nodes by it, that of the running system.
func NodeNames(h *infrav1.Host) []string {
	names := []string{h.Name}
	for _, a := range h.Status.Addresses {
		if a.Type == clusterv1.MachineHostName && a.Address != h.Name {
			names = append(names, a.Address)
		}
	}
	return names
}
