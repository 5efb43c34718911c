package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"

	"k8s.io/client-go/rest"
)

// elsewhere is the agent's identity in another place than the one that serves its host: the
// same key and name, certificates of its own.
type elsewhere struct {
	enroller            *Enroller
	enrollment, working *tls.Certificate
	// key is that of the working certificate.
	key    *ecdsa.PrivateKey
	config *rest.Config
	close  func()
}

// Config reaches the management cluster of the other place as the agent there.
func (e *elsewhere) Config() *rest.Config { return e.config }

// Close drops the connections.
func (e *elsewhere) Close() { e.close() }

// work gets the working certificate, with the enrollment certificate of there.
func (e *elsewhere) work(ctx context.Context, server *rest.Config, why request) (err error) {
	if e.working, err = e.enroller.ask(ctx, server, e.enrollment, e.key, why); err != nil {
		return err
	}
	e.config, e.close, err = following(server, func() *tls.Certificate { return e.working })
	return err
}

// save keeps the certificates in the place of those of here.
func (e *elsewhere) save() error {
	return errors.Join(e.enroller.saveEnrollment(e.enrollment), e.enroller.saveWorking(e.working, e.key))
}

// onceMade returns the key of a working certificate elsewhere. It is the same for all tries of
// a session, which find the request of the first.
func onceMade(kept **ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	if *kept != nil {
		return *kept, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		*kept = key
	}
	return key, err
}
