package enroll

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/atomicfile"
	"github.com/slipway-dev/slipway/internal/host"
)

// refusedPause is the least time between two tries to replace a certificate
// that the server refuses.
const refusedPause = time.Minute

// enrollCap bounds the waits in the first minute: somebody is watching, and the
// token or the server may come up at any moment.
const enrollCap = time.Second

// Enroller obtains and renews the agent's client certificate.
type Enroller struct {
	StateDir            string
	BootstrapKubeconfig string
	Namespace, HostName string
	Log                 *slog.Logger
	// Now is the clock that judges certificates.
	Now func() time.Time
	// AllowLoopback accepts a bootstrap kubeconfig whose server is on this machine, as that
	// of simulated hosts is.
	AllowLoopback bool
}

// Session is an enrolled agent.
type Session struct {
	enroller *Enroller
	key      *ecdsa.PrivateKey
	server   *rest.Config
	config   *rest.Config
	close    func()
	refused  chan struct{}

	mu          sync.Mutex
	certificate *tls.Certificate
	// configured is the digest of the bootstrap kubeconfig the session began with; empty
	// for none, and once that is removed.
	configured string
}

// Enroll blocks until the agent has a valid certificate. It tries for ever; an
// error means that the state directory cannot be used, or that ctx ended.
func (e *Enroller) Enroll(ctx context.Context) (*Session, error) {
	key, err := loadKey(e.StateDir)
	if err != nil {
		return nil, err
	}
	s := &Session{enroller: e, key: key, refused: make(chan struct{}, 1), certificate: e.loadCertificate(key)}
	for retry := (backoff.Backoff{EarlyCap: enrollCap}); ; {
		err := s.connect(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wait := retry.Next(e.Now())
		e.Log.Error("cannot enroll, trying again", "error", err, "in", wait.Round(time.Millisecond))
		if !backoff.Sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Session) connect(ctx context.Context) error {
	configured, err := s.enroller.configuredDigest()
	if err != nil {
		return err
	}
	server, err := s.enroller.server()
	if err != nil {
		return err
	}
	if s.certificate == nil {
		if err := s.replace(ctx, nil); err != nil {
			return err
		}
	}
	if err := s.enroller.saveKubeconfig(server); err != nil {
		return fmt.Errorf("save the kubeconfig: %w", err)
	}
	s.server, s.configured = server, configured
	s.config, s.close, err = following(server, s.current)
	return err
}

// Config returns the client configuration of the agent. Its connections use the
// certificate that is current when they are opened.
func (s *Session) Config() *rest.Config { return s.config }

// CloseConnections drops the open connections, so that the next request does not
// wait for one that died in silence.
func (s *Session) CloseConnections() { s.close() }

// Refused tells that the server did not accept the certificate. The session then
// enrolls again with the bootstrap token, if there is one.
func (s *Session) Refused() {
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// Expires returns when the current certificate ends.
func (s *Session) Expires() time.Time { return s.current().Leaf.NotAfter }

func (s *Session) current() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificate
}

// Run renews the certificate when less than a third of its life is left, until
// the context ends.
func (s *Session) Run(ctx context.Context) {
	for {
		leaf := s.current().Leaf
		due := leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
		if leaf.Subject.CommonName == host.FormerAgentUser(s.enroller.Namespace, s.enroller.HostName) {
			// Nothing is granted to that name any more.
			due = s.enroller.Now()
		}
		timer := time.NewTimer(max(due.Sub(s.enroller.Now()), 0))
		var withToken bool
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.refused:
			withToken = true
		case <-timer.C:
			withToken = s.enroller.Now().After(leaf.NotAfter)
		}
		timer.Stop()
		client := s.config
		if withToken {
			client = nil
		}
		if err := s.replace(ctx, client); err != nil {
			s.enroller.Log.Error("cannot renew the client certificate, trying again", "expires", leaf.NotAfter, "error", err, "in", refusedPause)
		}
		if !backoff.Sleep(ctx, s.pause()) {
			return
		}
	}
}

// pause keeps renewals of a short-lived certificate apart by a tenth of its life.
func (s *Session) pause() time.Duration {
	leaf := s.current().Leaf
	return min(refusedPause, leaf.NotAfter.Sub(leaf.NotBefore)/10)
}

// replace obtains a new certificate with the given configuration, or with the
// bootstrap token when that is nil.
func (s *Session) replace(ctx context.Context, config *rest.Config) error {
	e := s.enroller
	if config == nil {
		var err error
		if config, err = e.bootstrap(); err != nil {
			return err
		}
	}
	client, err := kube.New(config)
	if err != nil {
		return err
	}
	old := s.current()
	data, err := e.obtain(ctx, client, s.key, request{reason: serial(old)})
	if err != nil {
		return err
	}
	user, err := e.user(s.key)
	if err != nil {
		return err
	}
	fresh, err := parseCertificate(data, s.key, e.Now(), user)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(e.StateDir, certificateFile), encode(fresh), 0o600); err != nil {
		return fmt.Errorf("save the client certificate: %w", err)
	}
	s.mu.Lock()
	s.certificate = fresh
	s.mu.Unlock()
	e.Log.Info("have a client certificate", "user", user, "expires", fresh.Leaf.NotAfter)
	if s.close != nil {
		s.close()
	}
	return nil
}

func encode(c *tls.Certificate) []byte {
	var out bytes.Buffer
	for _, der := range c.Certificate {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out.Bytes()
}
