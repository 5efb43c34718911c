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
	return parseUser(user, infrav1.AgentUserPrefix)
}

// ParseEnrollmentUser splits the user name by which an agent requests its certificates; see
// infrav1.EnrollmentUser. ok is false when user is anything else.
func ParseEnrollmentUser(user string) (namespace, name string, ok bool) {
	return parseUser(user, infrav1.EnrollmentUserPrefix)
}

func parseUser(user, prefix string) (namespace, name string, ok bool) {
	rest, found := strings.CutPrefix(user, prefix)
	if !found {
		return "", "", false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// AgentOfEnrollment is the user name of the agent that enrolls as user; empty when
// user is no such name.
func AgentOfEnrollment(user string) string {
	if _, _, ok := ParseEnrollmentUser(user); !ok {
		return ""
	}
	return infrav1.AgentUserPrefix + strings.TrimPrefix(user, infrav1.EnrollmentUserPrefix)
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

// NodeNames are the names that a Node on the host may have: that of the Host, the one that the
// agent decided and, since kubeadm names Nodes by it, that of the running system.
func NodeNames(h *infrav1.Host) []string {
	names := []string{h.Name}
	if n := h.Status.Node; n != nil && n.Name != h.Name {
		names = append(names, n.Name)
	}
	for _, a := range h.Status.Addresses {
		if a.Type == clusterv1.MachineHostName && !slices.Contains(names, a.Address) {
			names = append(names, a.Address)
		}
	}
	return names
}
