package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

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

// Transfer is the agent's identity in another management cluster: the same key and
// name, certificates of its own. It is not in force before Commit.
type Transfer struct {
	enroller            *Enroller
	kubeconfig          []byte
	enrollment, working *tls.Certificate
	key                 *ecdsa.PrivateKey
	config              *rest.Config
	close               func()
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
	if s.targetKey == nil {
		// The same for all tries of this session, which find the request of the first.
		if s.targetKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	t := &Transfer{enroller: e, kubeconfig: kubeconfig, key: s.targetKey}
	client, err := kube.New(withToken(target))
	if err != nil {
		return nil, err
	}
	first := enrollmentRequest(s.names, reason)
	first.handedOver = true
	if t.enrollment, err = e.obtain(ctx, client, s.key, first); err != nil {
		return nil, err
	}
	if t.working, err = e.ask(ctx, serverOf(target), t.enrollment, t.key, workingRequest(s.names, reason)); err != nil {
		return nil, err
	}
	t.config, t.close, err = following(serverOf(target), func() *tls.Certificate { return t.working })
	return t, err
}

// Config reaches the other management cluster as this agent.
func (t *Transfer) Config() *rest.Config { return t.config }

// Close drops the connections.
func (t *Transfer) Close() { t.close() }

// Commit makes the other management cluster that of the host, for good. A crash after
// the first write leaves certificates that it refuses, and the agent enrolls there
// with the token. Without the first write there is none of the others: the management
// cluster of today would refuse those certificates, and there is no token for it any more.
func (t *Transfer) Commit() error {
	e := t.enroller
	if err := e.moveHome(t.kubeconfig); err != nil {
		return err
	}
	return errors.Join(e.saveEnrollment(t.enrollment), e.saveWorking(t.working, t.key))
}
