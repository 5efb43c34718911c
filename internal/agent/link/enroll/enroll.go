package enroll

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

// refusedPause is the least time between two tries to replace a certificate
// that the server refuses.
const refusedPause = time.Minute

// enrollCap bounds the waits in the first minute: somebody is watching, and the
// token or the server may come up at any moment.
const enrollCap = time.Second

// Enroller obtains and renews the agent's certificates.
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
	names    names
	server   *rest.Config
	config   *rest.Config
	close    func()
	refused  chan struct{}
	// gone is called when the management cluster denies a certificate since it has no Host
	// for this agent any more. May be nil.
	gone func()
	// targetKey is that of the working certificate in another management cluster.
	targetKey *ecdsa.PrivateKey
	// assignedKey is that of the working certificate in another namespace.
	assignedKey *ecdsa.PrivateKey

	mu sync.Mutex
	// enrollment is the certificate of the identity key, working the one that the agent
	// works with.
	enrollment, working *tls.Certificate
	// taken is when they came, by serial number, if they came in this session.
	taken map[string]time.Time
	// configured is the digest of the bootstrap kubeconfig the session began with; empty
	// for none, and once that is removed.
	configured string
}

// Enroll blocks until the agent has a certificate to work with. It tries for ever; an
// error means that the state directory cannot be used, or that ctx ended.
func (e *Enroller) Enroll(ctx context.Context) (*Session, error) {
	key, err := loadKey(e.StateDir)
	if err != nil {
		return nil, err
	}
	s := &Session{enroller: e, key: key, refused: make(chan struct{}, 1)}
	if s.names, err = e.names(key); err != nil {
		return nil, err
	}
	s.enrollment, s.working = e.loadEnrollment(key, s.names), e.loadWorking(s.names)
	for retry := (backoff.Backoff{EarlyCap: enrollCap}); ; {
		err := s.connect(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wait := retry.Next(e.Now())
		e.Log.Error("cannot enroll, trying again", "err", err, "in", wait.Round(time.Millisecond))
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
	if s.server, err = s.enroller.server(); err != nil {
		return err
	}
	if s.current() == nil {
		if err := s.renewWorking(ctx); err != nil {
			return err
		}
	}
	if err := s.enroller.saveKubeconfig(s.server); err != nil {
		return fmt.Errorf("save the kubeconfig: %w", err)
	}
	s.configured = configured
	s.config, s.close, err = following(s.server, s.current)
	return err
}

// Config returns the client configuration of the agent. Its connections use the
// certificate that is current when they are opened.
func (s *Session) Config() *rest.Config { return s.config }

// CloseConnections drops the open connections, so that the next request does not
// wait for one that died in silence.
func (s *Session) CloseConnections() { s.close() }

// Refused tells that the server did not accept the certificate. The session then asks for
// another one, and if it may not, enrolls again with the bootstrap token, if there is one.
func (s *Session) Refused() {
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// OnGone has a function called when the management cluster says that it has no Host for this
// agent any more, which nobody else hears once the certificate has ended. It must be called
// before Run.
func (s *Session) OnGone(f func()) { s.gone = f }

// Expires returns when the current certificate ends.
func (s *Session) Expires() time.Time { return s.current().Leaf.NotAfter }

func (s *Session) current() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

// asking returns the certificate of the identity key.
func (s *Session) asking() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enrollment
}

// enrolled says whether the agent needs no bootstrap token. Without one, a certificate that has ended is tried: the
// clock that says so may be wrong.
func (s *Session) enrolled() bool {
	c := s.asking()
	if c == nil || s.enroller.Now().Before(c.Leaf.NotAfter) {
		return c != nil
	}
	_, err := s.enroller.bootstrap()
	return err != nil
}

func encode(c *tls.Certificate) []byte {
	var out bytes.Buffer
	for _, der := range c.Certificate {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out.Bytes()
}
