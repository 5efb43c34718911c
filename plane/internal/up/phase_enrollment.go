package up

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// agentCertificates are what an agent that was enrolled has, in agentState: the one that it
// asks for others with, and the one that it works with.
const (
	enrollmentCertificate = "enrollment.crt"
	workingCertificate    = "client.pem"
)

// agentCertificate is the file by which the agent of a local host needs no token.
const agentCertificate = agentState + "/" + enrollmentCertificate

// enrollHosts waits until every local host is known to the plane, those of an earlier run
// with more of them, too. The token is made good once more: the attempt while the plane
// started may have failed. It ends with the phase.
func (s *Session) enrollHosts(ctx context.Context, step *progress.Step) error {
	if err := s.ensureBootstrapToken(ctx); err != nil {
		return err
	}
	local, err := s.Hosts.List(ctx)
	if err != nil {
		return err
	}
	told := map[string]bool{}
	return poll(ctx, pollInterval, func() (bool, error) {
		var list infrav1.HostList
		if err := s.client.List(ctx, &list); err != nil {
			return false, nil //nolint:nilerr // a server that is busy now is asked again
		}
		standing := whereAre(local, list.Items)
		for _, e := range standing.elsewhere {
			if !told[e.name] {
				told[e.name] = true
				s.Progress.Note(fmt.Sprintf("Note: %s is enrolled in the namespace %s: it serves no cluster of %s, and is not waited for.", e.name, e.namespace, Namespace))
			}
		}
		for _, name := range standing.unknown {
			if told[name] {
				continue
			}
			again, err := s.enrolledBefore(name, s.started)
			if err == nil && again {
				told[name] = true
				step.Waitf("%s has no Host any more, enrolling it again", name)
				err = s.enrollAgain(ctx, step, name)
			}
			if err != nil {
				return false, fmt.Errorf("%s: %w", name, err)
			}
		}
		missing := slices.Concat(standing.unknown, standing.pending)
		if len(missing) == 0 {
			if err := enroll.EndLocal(ctx, s.client, ""); err != nil {
				return false, nil //nolint:nilerr // likewise
			}
			step.Donef("%d hosts", standing.known)
			return true, nil
		}
		step.Waitf("%d of %d hosts; waiting for the agent of %s (`slipway host logs %s`)", standing.known, standing.known+len(missing), missing[0], missing[0])
		return false, nil
	})
}

// whereabouts of the local hosts.
type whereabouts struct {
	// known is how many are enrolled into Namespace.
	known int
	// pending have a Host whose agent has not reported yet, unknown have none.
	pending, unknown []string
	elsewhere        []enrolledElsewhere
}

type enrolledElsewhere struct{ name, namespace string }

// reported says whether nothing of the enrollment is left to wait for. An approval is
// somebody's decision; the machines that wait for it tell.
func reported(h *infrav1.Host) bool {
	return h.Status.Phase != "" && (h.Status.Phase != infrav1.HostPhaseEnrolling || !host.Approved(h))
}

// whereAre finds the Host of each local host. A machine that somebody enrolled into
// another namespace is known by its machine ID there, whatever it is called.
func whereAre(local []localhost.Host, hosts []infrav1.Host) whereabouts {
	var w whereabouts
	for _, l := range local {
		own := slices.IndexFunc(hosts, func(h infrav1.Host) bool { return h.Namespace == Namespace && h.Name == l.Name })
		other := slices.IndexFunc(hosts, func(h infrav1.Host) bool {
			return h.Namespace != Namespace && h.Status.Inventory.MachineID != "" && h.Status.Inventory.MachineID == l.MachineID
		})
		switch {
		case own >= 0 && reported(&hosts[own]):
			w.known++
		case other >= 0:
			w.elsewhere = append(w.elsewhere, enrolledElsewhere{l.Name, hosts[other].Namespace})
		case own >= 0:
			w.pending = append(w.pending, l.Name)
		default:
			w.unknown = append(w.unknown, l.Name)
		}
	}
	return w
}

// enrolledBefore reports whether the agent of a local host was enrolled before a time: it
// takes itself for enrolled then, and never asks for it again, though its Host is gone.
func (s *Session) enrolledBefore(host string, before time.Time) (bool, error) {
	f, err := sandbox.Open(s.Hosts.Dir(host), agentCertificate)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	return err == nil && info.ModTime().Before(before), err
}

// enrolled reports whether a local host needs no token at a time: its agent has a certificate
// that is good then, or belongs to another management cluster.
func (s *Session) enrolled(host string, at time.Time) (bool, error) {
	if server, err := homeOf(s.Hosts.Dir(host)); err != nil || server != "" && server != s.Instance.Server() {
		return true, err
	}
	data, err := readFile(s.Hosts.Dir(host), agentCertificate)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The agent asks for another one in place of what is no certificate.
	chain, err := cert.ParseCertsPEM(data)
	return err == nil && at.Before(chain[0].NotAfter), nil
}

// forgetEnrollment gives the agent the bootstrap kubeconfig on standard input, takes its
// certificates away, and starts it again. The key stays: the machine is who it was.
const forgetEnrollment = `set -e; umask 077; cat >"$1"; cd "$2"; shift 2; rm -f "$@"; systemctl restart slipway-agent`

// enrollAgain has the agent of a local host ask for a certificate, and so for a Host.
func (s *Session) enrollAgain(ctx context.Context, step *progress.Step, host string) error {
	kubeconfig, err := s.bootstrapKubeconfig(ctx, step)
	if err != nil {
		return err
	}
	if err := s.forgetRequests(ctx, host); err != nil {
		return err
	}
	return s.script(ctx, host, kubeconfig, forgetEnrollment, enroll.BootstrapKubeconfigPath, agentState,
		enrollmentCertificate, workingCertificate)
}

// forgetRequests deletes the certificate requests of a host. An agent without a
// certificate gives its request the name of the first one, and would take the certificate
// that is there, without a Host being made.
func (s *Session) forgetRequests(ctx context.Context, host string) error {
	var requests certificatesv1.CertificateSigningRequestList
	if err := s.client.List(ctx, &requests); err != nil {
		return err
	}
	for i := range requests.Items {
		if !isRequestOf(requests.Items[i].Spec.Request, host) {
			continue
		}
		if err := s.client.Delete(ctx, &requests.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the earlier certificate request: %w", err)
		}
	}
	return nil
}

// isRequestOf reports whether a certificate request asks for an agent of the host, with
// whichever key.
func isRequestOf(request []byte, host string) bool {
	block, _ := pem.Decode(request)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	for _, prefix := range []string{infrav1.EnrollmentUserPrefix, infrav1.AgentUserPrefix} {
		user := prefix + Namespace + ":" + host
		if parsed.Subject.CommonName == user || strings.HasPrefix(parsed.Subject.CommonName, user+":") {
			return true
		}
	}
	return false
}
