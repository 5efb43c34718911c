package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

const (
	// renewFrom and renewWithin say when a certificate is replaced, as parts of its life:
	// about two thirds, and hosts that enrolled together do not come together.
	renewFrom, renewWithin = 0.60, 0.15
	// clockCheck is how often the wall clock is asked whether a certificate is due: timers
	// stand while a machine is suspended.
	clockCheck = 10 * time.Minute
)

// renewAt is when a certificate is due for another one.
func renewAt(leaf *x509.Certificate) time.Time {
	sum := sha256.Sum256(leaf.Raw)
	part := float64(binary.BigEndian.Uint64(sum[:8])) / math.MaxUint64
	life := float64(leaf.NotAfter.Sub(leaf.NotBefore))
	return leaf.NotBefore.Add(time.Duration(life * (renewFrom + renewWithin*part)))
}

// Run renews the certificates in time, until the context ends.
func (s *Session) Run(ctx context.Context) {
	for {
		due := s.workingDue()
		if at := s.enrollmentDue(); at.Before(due) {
			due = at
		}
		timer := time.NewTimer(min(max(due.Sub(s.enroller.Now()), 0), clockCheck))
		var refused bool
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.refused:
			refused = true
		case <-timer.C:
		}
		timer.Stop()
		if !refused && s.enroller.Now().Before(due) {
			continue
		}
		if err := s.renew(ctx, refused); err != nil && ctx.Err() == nil {
			s.enroller.Log.Error("cannot renew the certificates, trying again", "expires", s.Expires(), "err", err, "in", s.pause())
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

// enrollmentDue is the past when there is no enrollment certificate.
func (s *Session) enrollmentDue() time.Time {
	if c := s.asking(); c != nil {
		return s.due(c)
	}
	return time.Time{}
}

func (s *Session) workingDue() time.Time { return s.due(s.current()) }

// due is when a certificate of this session is replaced. One that was due when it was new
// tells of a clock that is wrong: half of its life is waited then, as asking again at once
// brings no other. A clock that was set back since counts for nothing: the certificate is due
// by itself.
func (s *Session) due(c *tls.Certificate) time.Time {
	at := renewAt(c.Leaf)
	s.mu.Lock()
	taken, known := s.taken[serial(c)]
	s.mu.Unlock()
	if known && at.Before(taken) && !s.enroller.Now().Before(taken) {
		return taken.Add(c.Leaf.NotAfter.Sub(c.Leaf.NotBefore) / 2)
	}
	return at
}

// renew replaces what is due, and the working certificate when the server refused it.
func (s *Session) renew(ctx context.Context, refused bool) error {
	var err error
	now := s.enroller.Now()
	if !now.Before(s.enrollmentDue()) {
		if err = s.renewEnrollment(ctx, !s.enrolled(), false); err != nil && !s.enrolled() {
			return err
		}
	}
	if refused || !now.Before(s.workingDue()) {
		err = errors.Join(err, s.renewWorking(ctx))
	}
	return err
}

// renewEnrollment gets another certificate for the identity key: by the one that there is,
// or with the bootstrap token. anew says that there is no Host for the one that there is.
func (s *Session) renewEnrollment(ctx context.Context, withToken, anew bool) error {
	e, old := s.enroller, s.asking()
	why := enrollmentRequest(s.names, serial(old))
	if !withToken {
		why.orToken, why.gone = true, s.gone
		fresh, err := e.ask(ctx, s.server, old, s.key, why)
		if err == nil {
			return s.takeEnrollment(fresh)
		}
		if !otherwise(err) {
			return err
		}
		anew = errors.Is(err, errHostGone)
		e.Log.Warn("the certificate of this host asks in vain, enrolling with the bootstrap token", "err", err)
	}
	config, err := e.bootstrap()
	if err != nil {
		return err
	}
	client, err := kube.New(config)
	if err != nil {
		return err
	}
	why.orToken, why.gone, why.anew = false, nil, anew
	fresh, err := e.obtain(ctx, client, s.key, why)
	if err != nil {
		return err
	}
	return s.takeEnrollment(fresh)
}

func (s *Session) takeEnrollment(fresh *tls.Certificate) error {
	if err := s.enroller.saveEnrollment(fresh); err != nil {
		return fmt.Errorf("save the enrollment certificate: %w", err)
	}
	s.mu.Lock()
	s.enrollment = fresh
	s.took(fresh)
	s.mu.Unlock()
	s.enroller.Log.Info("have an enrollment certificate", "user", s.names.enrollment, "expires", fresh.Leaf.NotAfter)
	return nil
}

// renewWorking gets another certificate to work with, of a new key. Without an enrollment
// certificate, or when that is refused, it gets one first.
func (s *Session) renewWorking(ctx context.Context) error {
	e := s.enroller
	if !s.enrolled() {
		if err := s.renewEnrollment(ctx, true, false); err != nil {
			return err
		}
	}
	key, err := nextKey(e.StateDir, s.current())
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	why := workingRequest(s.names, serial(s.current()))
	why.orToken, why.gone = true, s.gone
	fresh, err := e.ask(ctx, s.server, s.asking(), key, why)
	if otherwise(err) {
		e.Log.Warn("the enrollment certificate asks in vain, enrolling with the bootstrap token", "err", err)
		if tokenErr := s.renewEnrollment(ctx, true, errors.Is(err, errHostGone)); tokenErr != nil {
			return errors.Join(err, tokenErr)
		}
		why.orToken = false
		fresh, err = e.ask(ctx, s.server, s.asking(), key, why)
	}
	if err != nil {
		return err
	}
	return s.takeWorking(fresh, key)
}

func (s *Session) takeWorking(fresh *tls.Certificate, key *ecdsa.PrivateKey) error {
	e := s.enroller
	if err := e.saveWorking(fresh, key); err != nil {
		return fmt.Errorf("save the client certificate: %w", err)
	}
	if err := os.Remove(filepath.Join(e.StateDir, nextKeyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	s.working = fresh
	s.took(fresh)
	s.mu.Unlock()
	e.Log.Info("have a client certificate", "user", s.names.agent, "expires", fresh.Leaf.NotAfter)
	if s.close == nil {
		return nil
	}
	s.close()
	return e.saveKubeconfig(s.server)
}

// took remembers when the certificates of this session came. The lock is held.
func (s *Session) took(fresh *tls.Certificate) {
	taken := map[string]time.Time{serial(fresh): s.enroller.Now()}
	for _, c := range []*tls.Certificate{s.enrollment, s.working} {
		if at, ok := s.taken[serial(c)]; ok && c != fresh {
			taken[serial(c)] = at
		}
	}
	s.taken = taken
}

// otherwise says whether a bootstrap token may get what a certificate does not.
func otherwise(err error) bool { return apierrors.IsUnauthorized(err) || errors.Is(err, errHostGone) }

// ask asks a management cluster with a certificate for another one.
func (e *Enroller) ask(ctx context.Context, server *rest.Config, by *tls.Certificate, key *ecdsa.PrivateKey, why request) (*tls.Certificate, error) {
	config, drop, err := following(server, func() *tls.Certificate { return by })
	if err != nil {
		return nil, err
	}
	defer drop()
	client, err := kube.New(config)
	if err != nil {
		return nil, err
	}
	return e.obtain(ctx, client, key, why)
}
