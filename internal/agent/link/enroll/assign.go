package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
)

// assignedFile says in which namespace the host is by now, in one piece with the certificate
// by which it asks there: nobody else would give it one.
const assignedFile = config.AssignedFile

// assigned is the content of assignedFile.
type assigned struct {
	Namespace string `json:"namespace"`
	// Configured is the namespace in the configuration at that time, and Supersedes the digest
	// of the bootstrap kubeconfig, or of the one removed last. Another one of either is a later
	// word of the operator, and wins.
	Configured string `json:"configured"`
	Supersedes string `json:"supersedes"`
	// Certificate is the enrollment certificate in Namespace, as PEM.
	Certificate []byte `json:"certificate"`
}

// Namespace returns the namespace of the host: the one of its configuration, or the one that
// it was assigned to since.
func Namespace(stateDir, configured, bootstrapKubeconfig string) (string, error) {
	a, err := loadAssigned(stateDir)
	if err != nil || a == nil || a.Configured != configured {
		return configured, err
	}
	if later, err := laterWord(bootstrapKubeconfig, a.Supersedes); err != nil || later {
		return configured, err
	}
	return a.Namespace, nil
}

// loadAssigned returns nil for a host that never was assigned.
func loadAssigned(stateDir string) (*assigned, error) {
	a := &assigned{}
	found, err := durable.ReadJSON(filepath.Join(stateDir, assignedFile), a)
	if err == nil && !found {
		return nil, nil
	}
	if err == nil && a.Namespace == "" {
		err = errors.New("it names no namespace")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w; remove it, and enroll the host again with a bootstrap token of the namespace it is to be in", assignedFile, stateDir, err)
	}
	return a, nil
}

// assignedEnrollment is the enrollment certificate that came with the namespace, for an agent
// that was stopped before it kept it where it belongs; nil without one.
func (e *Enroller) assignedEnrollment(key *ecdsa.PrivateKey, names names) *tls.Certificate {
	a, err := loadAssigned(e.StateDir)
	if err != nil || a == nil {
		return nil
	}
	c, err := pair(a.Certificate, key, names.enrollment)
	if err != nil {
		return nil
	}
	return c
}

// Assignment is the agent's identity in another namespace of its management cluster. It is
// not in force before Commit.
type Assignment struct {
	elsewhere
	namespace string
}

// errNoEnrollment means that this agent has no certificate yet by which it could ask.
var errNoEnrollment = errors.New("the host has no enrollment certificate yet")

// Assign asks for certificates in another namespace, with the enrollment certificate of this
// one. They are granted once the Host of the same name and key is there; it blocks until then,
// or until the context ends.
func (s *Session) Assign(ctx context.Context, namespace string) (*Assignment, error) {
	if !s.enrolled() {
		return nil, errNoEnrollment
	}
	there := *s.enroller
	there.Namespace = namespace
	names, err := there.names(s.key)
	if err != nil {
		return nil, err
	}
	key, err := onceMade(&s.assignedKey)
	if err != nil {
		return nil, err
	}
	a := &Assignment{elsewhere: elsewhere{enroller: s.enroller, key: key}, namespace: namespace}
	const reason = "assigned"
	if a.enrollment, err = there.ask(ctx, s.server, s.asking(), s.key, enrollmentRequest(names, reason)); err != nil {
		return nil, err
	}
	return a, a.work(ctx, s.server, workingRequest(names, reason))
}

// Commit makes the other namespace that of the host, for good, in one write. configured is
// the namespace of the configuration. What comes after spares the next start two requests.
func (a *Assignment) Commit(configured string) error {
	e := a.enroller
	supersedes, err := e.lastDigest()
	if err != nil {
		return err
	}
	there := assigned{Namespace: a.namespace, Configured: configured, Supersedes: supersedes, Certificate: encode(a.enrollment)}
	if err := durable.WriteJSON(filepath.Join(e.StateDir, assignedFile), there, 0o600); err != nil {
		return err
	}
	if err := a.save(); err != nil {
		e.Log.Warn("cannot keep the certificates of the namespace that the host was assigned to, asking for others", "err", err)
	}
	return nil
}
