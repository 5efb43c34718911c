package enroll

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/host"
)

// probeRequest is the name of a certificate request that nobody files.
const probeRequest = "slipway-agent-probe"

// Probe makes sure that a management cluster can be reached and verified, and that it
// accepts the token. It changes nothing there.
func Probe(ctx context.Context, target host.Target) error {
	client, err := kube.New(withToken(target))
	if err != nil {
		return err
	}
	_, err = client.GetCSR(ctx, probeRequest)
	switch {
	case apierrors.IsNotFound(err), err == nil:
		return nil
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return fmt.Errorf("%s does not accept the bootstrap token; make one that lives until all hosts are there: %w", target.Server, err)
	default:
		return fmt.Errorf("cannot reach %s from this host: %w", target.Server, err)
	}
}

// Transfer is the agent's identity in another management cluster. It is not in force before
// Commit.
type Transfer struct {
	elsewhere
	kubeconfig []byte
}

// Transfer asks the management cluster of a bootstrap kubeconfig for certificates. It
// blocks until they are granted, which takes until the Host is there, or the context
// ends. reason makes new requests of it.
func (s *Session) Transfer(ctx context.Context, kubeconfig []byte, reason string) (*Transfer, error) {
	e := s.enroller
	target, err := host.ParseTarget(kubeconfig)
	if err != nil {
		return nil, err
	}
	key, err := onceMade(&s.targetKey)
	if err != nil {
		return nil, err
	}
	t := &Transfer{elsewhere: elsewhere{enroller: e, key: key}, kubeconfig: kubeconfig}
	client, err := kube.New(withToken(target))
	if err != nil {
		return nil, err
	}
	first := enrollmentRequest(s.names, reason)
	first.handedOver = true
	if t.enrollment, err = e.obtain(ctx, client, s.key, first); err != nil {
		return nil, err
	}
	return t, t.work(ctx, serverOf(target), workingRequest(s.names, reason))
}

// Commit makes the other management cluster that of the host, for good. A crash after
// the first write leaves certificates that it refuses, and the agent enrolls there
// with the token. Without the first write there is none of the others: the management
// cluster of today would refuse those certificates, and there is no token for it any more.
func (t *Transfer) Commit() error {
	e := t.enroller
	if err := e.moveHome(t.kubeconfig); err != nil {
		return err
	}
	return t.save()
}
