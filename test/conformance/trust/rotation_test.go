package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// rotatedHost is a host whose keys are stolen.
const rotatedHost = "rotated"

// aDay is for how long agents ask for the certificates that they work with, in seconds.
var aDay = int32(infrav1.AgentCertificateLifetime.Seconds())

// enrollmentOf is who a host asks as, agentOf who it works as.
func enrollmentOf(name, hostID string) pkix.Name {
	return pkix.Name{CommonName: infrav1.EnrollmentUser(guarded, name, hostID), Organization: []string{infrav1.EnrollmentGroup}}
}

func agentOf(name, hostID string) pkix.Name {
	return pkix.Name{CommonName: infrav1.AgentUser(guarded, name, hostID), Organization: []string{infrav1.AgentGroup}}
}

// rotated enrolls a host as its agent does, with certificates that the controller manager of
// Kubernetes signs, and has the thief of each of its two keys try what that is not good for.
func (w *world) rotated(t *testing.T) {
	identity, id := w.newKey()
	agent, asking := agentOf(rotatedHost, id), enrollmentOf(rotatedHost, id)
	file := func(name string, subject pkix.Name, by *rest.Config, key *ecdsa.PrivateKey, lifetime *int32) (*rest.Config, string) {
		csr := w.request(rotatedHost+"-"+name, subject, key)
		csr.Spec.ExpirationSeconds = lifetime
		return w.ask(by, csr, key)
	}
	enrollment, denied := file("enrollment", asking, w.withToken(stolenTokenID), identity, nil)
	if denied != "" {
		t.Fatal(denied)
	}
	working := func(name string) *rest.Config {
		key, _ := w.newKey()
		config, denied := file(name, agent, enrollment, key, &aDay)
		if denied != "" {
			t.Fatal(denied)
		}
		return config
	}
	first, second := working("first"), working("second")
	for _, config := range []*rest.Config{first, second} {
		if ends := until(t, config); time.Until(ends) > infrav1.AgentCertificateLifetime {
			t.Errorf("a working certificate lasts until %s", ends)
		}
	}
	w.pretend(w.client(second), rotatedHost)

	h := &infrav1.Host{ObjectMeta: meta(guarded, rotatedHost)}
	secret := &corev1.Secret{ObjectMeta: meta(guarded, rotatedHost+"-bootstrap")}
	thief, _ := w.newKey()
	t.Run("thief of the enrollment certificate", func(t *testing.T) {
		stolen := persona{name: "thief of the enrollment certificate"}
		for _, a := range []attempt{
			{"read the Host", read(h)},
			{"read bootstrap data", read(secret)},
			{"forge facts", patch(h, map[string]any{"status": map[string]any{"bootID": "forged"}}, "status")},
			{"list requests", list(&certificatesv1.CertificateSigningRequestList{})},
		} {
			w.judge(t, stolen, w.client(enrollment), a)
		}
		for name, lifetime := range map[string]*int32{"for-ever": nil, "for-a-week": ptr.To[int32](7 * 24 * 60 * 60)} {
			if _, denied := file(name, agent, enrollment, thief, lifetime); denied != "InvalidRequest" {
				t.Errorf("a working certificate %s is denied because of %q", name, denied)
			}
		}
		if _, denied := file("neighbor", agentOf("another", id), enrollment, thief, &aDay); denied != "RequesterNotAllowed" {
			t.Errorf("a certificate of another host is denied because of %q", denied)
		}
		if _, denied := file("other-key", asking, enrollment, thief, nil); denied != "InvalidSubject" {
			t.Errorf("an enrollment certificate of another key is denied because of %q", denied)
		}
	})
	t.Run("thief of the key and of a token", func(t *testing.T) {
		// Nobody gets a certificate to work with past the enrollment certificate.
		if _, denied := file("past-enrollment", agent, w.withToken(stolenTokenID), identity, &aDay); denied != "RequesterNotAllowed" {
			t.Errorf("a working certificate is denied because of %q", denied)
		}
	})
	t.Run("thief of a working key", func(t *testing.T) {
		// It is good until its day is over; the host has a newer one. It requests no other, not
		// even with the host's key.
		for name, csr := range map[string]*certificatesv1.CertificateSigningRequest{
			"request another working certificate": w.request(rotatedHost+"-next", agent, thief),
			"request an enrollment certificate":   w.request(rotatedHost+"-for-life", asking, identity),
		} {
			w.judge(t, persona{name: "thief of a working key"}, w.client(first), attempt{name, create(csr)})
		}
	})
	t.Run("machine that was replaced", func(t *testing.T) {
		if err := w.Client.Delete(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		w.eventually("the Host is gone", func(ctx context.Context) error {
			if err := read(h)(ctx, w.Client); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
		for name, config := range map[string]*rest.Config{"enrollment": enrollment, "first": first, "second": second} {
			c := w.client(config)
			// Its rights went with the Host; the authorizer learns of that a moment later.
			w.eventually("the "+name+" certificate is refused", func(ctx context.Context) error {
				if err := read(h)(ctx, c); !refused(err) {
					return fmt.Errorf("it is answered: %w", err)
				}
				return nil
			})
			w.judge(t, persona{name: name}, c, attempt{"read the Host with its " + name + " certificate", read(h)})
		}
		if _, denied := file("deleted", agent, enrollment, thief, &aDay); denied != infrav1.HostUnknownReason {
			t.Errorf("a working certificate of a deleted Host is denied because of %q", denied)
		}
		successor, successorID := w.newKey()
		if _, denied := file("successor", enrollmentOf(rotatedHost, successorID), w.withToken(stolenTokenID), successor, nil); denied != "" {
			t.Fatal(denied)
		}
		if _, denied := file("replaced", agent, enrollment, thief, &aDay); denied != "DuplicateIdentity" {
			t.Errorf("a working certificate of a machine that was replaced is denied because of %q", denied)
		}
		for _, config := range []*rest.Config{enrollment, second} {
			w.judge(t, persona{name: "replaced"}, w.client(config), attempt{"read its successor", read(&infrav1.Host{ObjectMeta: meta(guarded, rotatedHost)})})
		}
	})
}

// until is when the certificate of a configuration ends.
func until(t *testing.T, config *rest.Config) time.Time {
	t.Helper()
	block, _ := pem.Decode(config.CertData)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf.NotAfter
}
