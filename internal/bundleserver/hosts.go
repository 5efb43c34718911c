package bundleserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// DeniedError is a client that gets nothing, with what to do about it.
type DeniedError struct{ Why string }

// Error implements error.
func (e *DeniedError) Error() string { return e.Why }

// Hosts decides whom to serve: agents whose Host is there, is of their key, and is not
// denied or waiting for an approval. So rights end with the Host, as they do at the API server,
// whatever is left of a certificate's day.
type Hosts struct{ Reader client.Reader }

// Check returns a *DeniedError for a client that is no such agent. Whether its certificate is
// by the CA of hosts, the connection saw to.
func (h Hosts) Check(ctx context.Context, state *tls.ConnectionState) error {
	if state == nil || len(state.VerifiedChains) == 0 {
		return &DeniedError{"bundles are for hosts: show the client certificate of an agent"}
	}
	subject := state.PeerCertificates[0].Subject
	key, ok := hostOf(subject.CommonName)
	if !ok || !slices.Contains(subject.Organization, infrav1.AgentGroup) {
		return &DeniedError{fmt.Sprintf("bundles are for hosts, and %q is not the agent of one", subject.CommonName)}
	}
	host := &infrav1.Host{}
	err := h.Reader.Get(ctx, key, host)
	switch {
	case apierrors.IsNotFound(err):
		return &DeniedError{fmt.Sprintf("there is no Host %s; enroll this machine again", key)}
	case err != nil:
		return fmt.Errorf("look for the Host %s: %w", key, err)
	case infrav1.AgentUser(key.Namespace, key.Name, host.Spec.HostID) != subject.CommonName:
		return &DeniedError{fmt.Sprintf("the Host %s is of another machine", key)}
	case host.Spec.Approval == infrav1.HostApprovalPending || host.Spec.Approval == infrav1.HostApprovalDenied:
		return &DeniedError{fmt.Sprintf("the Host %s is not approved; `slipway host approve %s -n %s` does that", key, key.Name, key.Namespace)}
	}
	return nil
}

// hostOf reads the name of an agent's user. Names of namespaces and of Hosts have no colon.
func hostOf(user string) (client.ObjectKey, bool) {
	rest, ok := strings.CutPrefix(user, infrav1.AgentUserPrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 || slices.Contains(parts, "") {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: parts[0], Name: parts[1]}, true
}
