package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	pollFirst = 100 * time.Millisecond
	pollLast  = 2 * time.Second
	// remindAfter is how often the log tells that nobody has decided yet.
	remindAfter = time.Minute
	// deniedFirst and deniedLast bound the wait after a denial, or a certificate that is of no
	// use, which grows with each one. After a restart it is measured from the denial.
	deniedFirst = 5 * time.Second
	deniedLast  = 5 * time.Minute
)

// names are the user names of this host, with the identity of its key: the one that it
// works under, and the one by which it asks for certificates.
type names struct{ agent, enrollment string }

func (e *Enroller) names(key *ecdsa.PrivateKey) (names, error) {
	id, err := host.ID(&key.PublicKey)
	return names{infrav1.AgentUser(e.Namespace, e.HostName, id), infrav1.EnrollmentUser(e.Namespace, e.HostName, id)}, err
}

// request is what certificate is asked for, and why.
type request struct {
	// user and group are what the certificate says.
	user, group string
	// lifetime is how long it is to last; as long as the signer makes them when zero.
	lifetime time.Duration
	// reason is the serial number of the certificate to replace, or the hand-over; it
	// is empty for the first one.
	reason string
	// handedOver says that the Host comes with a move.
	handedOver bool
	// orToken says not to insist when the Host is gone and there is a bootstrap kubeconfig,
	// by which the machine enrolls as a new one.
	orToken bool
	// anew says that a certificate of an earlier request is of no use, since only a new request has the Host made again.
	anew bool
	// gone is called when a new request is denied since there is no Host. May be nil.
	gone func()
}

func enrollmentRequest(n names, reason string) request {
	return request{user: n.enrollment, group: infrav1.EnrollmentGroup, reason: reason}
}

func workingRequest(n names, reason string) request {
	return request{user: n.agent, group: infrav1.AgentGroup, lifetime: infrav1.AgentCertificateLifetime, reason: reason}
}

// errHostGone says that the management cluster has no Host for this agent any more.
var errHostGone = errors.New("the Host of this machine was deleted")

// requestName is the same for the same key, reason and attempt: a restart finds
// the request it has filed already.
func requestName(publicKey []byte, user, replaces string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%x", user, replaces, publicKey))
	return fmt.Sprintf("slipway-agent-%s-%d", hex.EncodeToString(sum[:10]), attempt)
}

// obtain returns a signed certificate. It files requests until one is granted or
// the context ends.
func (e *Enroller) obtain(ctx context.Context, client *kube.Client, key *ecdsa.PrivateKey, why request) (*tls.Certificate, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		name := requestName(der, why.user, why.reason, attempt)
		csr, filed, err := e.await(ctx, client, key, name, why)
		if err != nil {
			return nil, err
		}
		wait := min(deniedFirst<<min(attempt-1, 10), deniedLast)
		refused := refusal(csr)
		if refused == nil {
			// Of a new one the server's clock says that it is good, whatever this host's says.
			c, err := pair(csr.Status.Certificate, key, why.user)
			if err == nil && (filed || !why.anew && e.Now().Before(c.Leaf.NotAfter)) {
				return c, nil
			}
			if !filed {
				continue
			}
			e.Log.Error("the management cluster issued a certificate that this host cannot use", "request", name, "err", err, "nextTryIn", wait)
			if !backoff.Sleep(ctx, wait) {
				return nil, context.Cause(ctx)
			}
			continue
		}
		if filed && why.gone != nil && refused.Reason == infrav1.HostUnknownReason {
			why.gone()
		}
		if _, err := os.Stat(e.BootstrapKubeconfig); err == nil && why.orToken && refused.Reason == infrav1.HostUnknownReason {
			return nil, fmt.Errorf("%w: %s", errHostGone, refused.Message)
		}
		if !filed {
			// To a clock that is behind, the denial is yet to come.
			wait -= max(e.Now().Sub(refused.LastUpdateTime.Time), 0)
		}
		if wait <= 0 {
			continue
		}
		e.Log.Error("the management cluster refused the certificate request", "request", name, "reason", refused.Reason, "message", refused.Message, "nextTryIn", wait.Round(time.Second))
		if !backoff.Sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// await files the request unless it exists, and returns it once it is decided
// and, if approved, signed. It reports whether the request is a new one.
func (e *Enroller) await(ctx context.Context, client *kube.Client, key *ecdsa.PrivateKey, name string, why request) (_ *certificatesv1.CertificateSigningRequest, filed bool, _ error) {
	request, err := e.template(key, name, why)
	if err != nil {
		return nil, false, err
	}
	outage := backoff.Backoff{EarlyCap: enrollCap}
	poll, reminded := pollFirst, e.Now()
	for {
		csr, err := client.GetCSR(ctx, name)
		if apierrors.IsNotFound(err) {
			if csr, err = client.CreateCSR(ctx, request); err == nil {
				filed = true
				e.Log.Info("filed a certificate request", "request", name, "user", why.user)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case apierrors.IsUnauthorized(err):
			return nil, false, fmt.Errorf("the management cluster does not accept the bootstrap token or certificate: %w; put a fresh token into %s", err, e.BootstrapKubeconfig)
		case err != nil && !apierrors.IsAlreadyExists(err):
			wait := outage.Next(e.Now())
			e.Log.Warn("cannot ask for a certificate, trying again", "err", err, "in", wait.Round(time.Millisecond))
			if !backoff.Sleep(ctx, wait) {
				return nil, false, context.Cause(ctx)
			}
			continue
		case err == nil && (refusal(csr) != nil || len(csr.Status.Certificate) > 0):
			return csr, filed, nil
		}
		outage.Reset()
		if e.Now().Sub(reminded) > remindAfter {
			reminded = e.Now()
			e.Log.Warn(undecided(why)+"; is slipway-manager running, and is there a signer for "+certificatesv1.KubeAPIServerClientSignerName+"?", "request", name)
		}
		if !backoff.Sleep(ctx, poll) {
			return nil, false, context.Cause(ctx)
		}
		poll = min(poll*3/2, pollLast)
	}
}

func (e *Enroller) template(key *ecdsa.PrivateKey, name string, why request) (*certificatesv1.CertificateSigningRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: why.user, Organization: []string{why.group}},
	}, key)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{infrav1.HostLabel: e.HostName}
	if why.handedOver {
		labels[infrav1.HandOverLabel] = ""
	}
	var lifetime *int32
	if why.lifetime > 0 {
		lifetime = ptr.To(int32(why.lifetime.Seconds()))
	}
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: cert.CertificateRequestBlockType, Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},

			ExpirationSeconds: lifetime,
		},
	}, nil
}

func undecided(why request) string {
	if why.handedOver {
		return "the certificate request waits for the Host, which has not been moved there yet"
	}
	return "the certificate request is still undecided"
}

// refusal returns the condition that denies the request, or that it failed.
func refusal(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequestCondition {
	for i, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

// certificates parses the PEM certificates; nil when there is none.
func certificates(data []byte) []*x509.Certificate {
	all, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil
	}
	return all
}

// serial names a certificate in requests that replace it.
func serial(c *tls.Certificate) string {
	if c == nil {
		return ""
	}
	return c.Leaf.SerialNumber.Text(16)
}
