package run

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/selfupdate"
	"github.com/slipway-dev/slipway/internal/version"
)

// askFor bounds how long a status waits for the management cluster.
const askFor = 5 * time.Second

// Status is what the agent of a host is, does and waits for; its fields are an API.
type Status struct {
	Version   string `json:"version"`
	Namespace string `json:"namespace"`
	// Host is the name of the Host; empty before the first start.
	Host string `json:"host,omitempty"`
	// Running says whether an agent works on the state directory.
	Running bool `json:"running"`
	// Server of the management cluster; empty while the host is not enrolled.
	Server     string     `json:"server,omitempty"`
	Connection Connection `json:"connection"`
	// EnrollmentExpires is the end of the certificate by which the agent asks for those that
	// it works with. After it, the host needs a bootstrap token.
	EnrollmentExpires *time.Time `json:"enrollmentExpires,omitempty"`
	// CertificateExpires is the end of the certificate that the agent works with, which lasts
	// a day.
	CertificateExpires *time.Time `json:"certificateExpires,omitempty"`
	// WaitingFor is what has to come from outside next; empty when nothing has to.
	WaitingFor string `json:"waitingFor,omitempty"`
	// AgentUpdate is how far the agent is with another version of itself; nil for none.
	AgentUpdate *selfupdate.Record `json:"agentUpdate,omitempty"`
	// Journal is what the agent knows after a crash.
	Journal Journal `json:"journal"`
}

// ConnectionState is the outcome of asking the management cluster, as the agent asks it.
type ConnectionState string

const (
	// ConnectionNone means that the host is not enrolled.
	ConnectionNone ConnectionState = "NotEnrolled"
	// ConnectionConnected means that it answered, and knows the host.
	ConnectionConnected ConnectionState = "Connected"
	// ConnectionRefused means that it answered, and refused the agent.
	ConnectionRefused ConnectionState = "Refused"
	// ConnectionUnreachable means that nobody answered whom the agent trusts.
	ConnectionUnreachable ConnectionState = "Unreachable"
)

// Connection is how the agent stands with the management cluster.
type Connection struct {
	State ConnectionState `json:"state"`
	// Message says why it is not connected.
	Message string `json:"message,omitempty"`
	// LastHeartbeat is what the management cluster has of it.
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
}

// Journal is what of the journal is of use to people.
type Journal struct {
	ClaimID         string              `json:"claimID,omitempty"`
	ClaimGeneration int64               `json:"claimGeneration"`
	Operation       *journal.Operation  `json:"operation,omitempty"`
	Residue         journal.Residue     `json:"residue,omitempty"`
	Found           []string            `json:"found,omitempty"`
	VirtualIP       string              `json:"virtualIP,omitempty"`
	CleanProof      *infrav1.CleanProof `json:"cleanProof,omitempty"`
}

// ReadStatus looks at the state directory, and asks the management cluster with the agent's
// own certificate. It changes nothing.
func ReadStatus(ctx context.Context, c *config.AgentConfiguration) (Status, error) {
	j, err := journal.Read(filepath.Join(c.StateDir, config.JournalFile))
	if err != nil {
		return Status{}, err
	}
	namespace, err := enroll.Namespace(c.StateDir, c.Namespace, c.BootstrapKubeconfig)
	if err != nil {
		return Status{}, err
	}
	s := Status{Version: version.Version, Namespace: namespace, Host: c.HostName, Connection: Connection{State: ConnectionNone},
		Journal: Journal{j.ClaimID, j.ClaimGeneration, j.Operation, j.Residue, j.Found, j.VirtualIP, j.CleanProof}}
	if kept, err := os.ReadFile(filepath.Join(c.StateDir, config.HostNameFile)); err == nil && s.Host == "" {
		s.Host = strings.TrimSpace(string(kept))
	}
	if s.AgentUpdate, err = selfupdate.Read(c.StateDir); err != nil {
		return s, err
	}
	s.Running = runs(c.StateDir)
	credentials, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.StateDir, config.KubeconfigFile))
	var h *infrav1.Host
	if err == nil {
		s.Server, s.CertificateExpires = credentials.Host, expiry(credentials)
		s.EnrollmentExpires = expiry(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: filepath.Join(c.StateDir, config.EnrollmentFile)}})
		s.Connection, h = ask(ctx, credentials, s.Namespace, s.Host)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	_, err = os.Stat(c.BootstrapKubeconfig)
	s.WaitingFor = waitingFor(s, h, err == nil, time.Now())
	return s, nil
}

// runs says whether an agent has the state directory.
func runs(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, config.LockFile)); err != nil {
		return false
	}
	unlock, err := lock(dir)
	if err != nil {
		return true
	}
	unlock()
	return false
}

// expiry of the client certificate; nil without a readable one.
func expiry(c *rest.Config) *time.Time {
	data := c.CertData
	if len(data) == 0 {
		var err error
		if data, err = os.ReadFile(c.CertFile); err != nil {
			return nil
		}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			end := leaf.NotAfter.UTC()
			return &end
		}
	}
	return nil
}

// ask reads Host and heartbeat as the agent does.
func ask(ctx context.Context, c *rest.Config, namespace, name string) (Connection, *infrav1.Host) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	client, err := kube.New(c)
	if err != nil {
		return Connection{State: ConnectionUnreachable, Message: err.Error()}, nil
	}
	h, err := client.GetHost(ctx, namespace, name)
	var answer apierrors.APIStatus
	switch {
	case errors.As(err, &answer):
		return Connection{State: ConnectionRefused, Message: err.Error()}, nil
	case err != nil:
		return Connection{State: ConnectionUnreachable, Message: err.Error()}, nil
	}
	found := Connection{State: ConnectionConnected}
	if lease, err := client.GetLease(ctx, namespace, name); err == nil && lease.Spec.RenewTime != nil {
		last := lease.Spec.RenewTime.UTC()
		found.LastHeartbeat = &last
	}
	return found, h
}

// asks is the end of the certificate by which the agent gets another one.
func asks(s Status) *time.Time { return cmp.Or(s.EnrollmentExpires, s.CertificateExpires) }

// waitingFor names the next thing that somebody else has to do. h is nil when nobody told;
// token says whether there is a bootstrap kubeconfig.
func waitingFor(s Status, h *infrav1.Host, token bool, now time.Time) string {
	const another = "a bootstrap kubeconfig: run the line of `slipway host token --join-command` here"
	op := s.Journal.Operation
	switch {
	case !s.Running:
		return "its start: `systemctl enable --now slipway-agent`"
	case s.Server == "" && token:
		return "the management cluster to sign its certificate: does slipway-manager run, and is the token good still? `journalctl -u slipway-agent` tells"
	case s.Server == "":
		return another
	case asks(s) != nil && now.After(*asks(s)) && !token:
		return "a new certificate, as this one has ended: it asks for one by itself while its enrollment is good; after that run the line of `slipway host token --uses 0 --join-command` here"
	case s.Connection.State == ConnectionRefused && (s.CertificateExpires == nil || now.Before(*s.CertificateExpires)):
		return "the management cluster at " + s.Server + ": it refused this host: was its Host deleted?"
	case s.Connection.State != ConnectionConnected:
		return "the management cluster at " + s.Server
	case h != nil && (h.Spec.Approval == infrav1.HostApprovalPending || h.Spec.Approval == infrav1.HostApprovalDenied):
		return fmt.Sprintf("its approval, which is %s: `slipway host approve %s -n %s`", h.Spec.Approval, s.Host, s.Namespace)
	case op != nil && op.State == infrav1.OperationFailed:
		return fmt.Sprintf("somebody to mend what failed: %s: %s", cmp.Or(op.Step, string(op.Phase)), strings.TrimSpace(op.Reason+" "+op.Message))
	case len(s.Journal.Found) > 0:
		return "somebody to take off the host what it did not put there: " + strings.Join(s.Journal.Found, ", ")
	case h != nil && h.Spec.Claim == nil:
		return "a machine to claim the host"
	}
	return ""
}
