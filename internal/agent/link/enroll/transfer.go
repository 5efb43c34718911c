package enroll

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/atomicfile"
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
// name, a certificate of its own. It is not in force before Commit.
type Transfer struct {
	enroller    *Enroller
	kubeconfig  []byte
	certificate *tls.Certificate
	config      *rest.Config
	close       func()
}

// Transfer asks the management cluster of a bootstrap kubeconfig for a certificate. It
// blocks until that is granted, which takes until the Host is there, or the context
// ends. reason makes a new request of it.
func (s *Session) Transfer(ctx context.Context, kubeconfig []byte, reason string) (*Transfer, error) {
	e := s.enroller
	target, err := host.ParseTarget(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kube.New(withToken(target))
	if err != nil {
		return nil, err
	}
	data, err := e.obtain(ctx, client, s.key, request{reason: reason, handedOver: true})
	if err != nil {
		return nil, err
	}
	t := &Transfer{enroller: e, kubeconfig: kubeconfig}
	user, err := e.user(s.key)
	if err != nil {
		return nil, err
	}
	if t.certificate, err = parseCertificate(data, s.key, e.Now(), user); err != nil {
		return nil, err
	}
	t.config, t.close, err = following(serverOf(target), func() *tls.Certificate { return t.certificate })
	return t, err
}

// Config reaches the other management cluster as this agent.
func (t *Transfer) Config() *rest.Config { return t.config }

// Close drops the connections.
func (t *Transfer) Close() { t.close() }

// Commit makes the other management cluster that of the host, for good. A crash after
// the first write leaves a certificate that it refuses, and the agent enrolls there
// with the token.
func (t *Transfer) Commit() error {
	e := t.enroller
	return errors.Join(
		e.moveHome(t.kubeconfig),
		atomicfile.Write(filepath.Join(e.StateDir, certificateFile), encode(t.certificate), 0o600),
	)
}
