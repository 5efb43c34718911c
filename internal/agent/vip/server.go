package vip

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// The Lease of the election in the workload cluster, and who may write it.
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "slipway-control-plane-endpoint"
	// ElectionUser is the common name of the agents' certificates.
	ElectionUser = "slipway:control-plane-endpoint"
)

// LocalServer implements vip.Server. It is not safe for concurrent use.
type LocalServer struct {
	// Root is "/" but in tests.
	Root hostfs.Root
	// Now is the clock of certificates.
	Now func() time.Time

	files  files
	made   time.Time
	client *kube.Workload
}

// Ready implements vip.Server.
func (s *LocalServer) Ready(ctx context.Context) error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	return s.refused(client.Ready(ctx))
}

// refused has the next request sign a new certificate when the API server refused this one: the clock
// of the host was set meanwhile, or the key of the authority was replaced.
func (s *LocalServer) refused(err error) error {
	if apierrors.IsUnauthorized(err) {
		s.made = time.Time{}
	}
	return err
}

// Lease implements vip.Server.
func (s *LocalServer) Lease(ctx context.Context) (*coordinationv1.Lease, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	lease, err := client.GetLease(ctx, LeaseNamespace, LeaseName)
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return lease, s.refused(err)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("make the Lease %s/%s: %w", LeaseNamespace, LeaseName, err)
	}
	return client.GetLease(ctx, LeaseNamespace, LeaseName)
}

// UpdateLease implements vip.Server.
func (s *LocalServer) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	stored, err := client.UpdateLease(ctx, lease)
	return stored, s.refused(err)
}

// Serves implements vip.Server. kubeadm writes the port of the API server into the files: when
// it is that one, Ready has connected to it.
func (s *LocalServer) Serves(ctx context.Context, port uint16) error {
	server, err := s.server()
	if err != nil {
		return err
	}
	own, err := url.Parse(server.Host)
	if err != nil {
		return fmt.Errorf("read %s: %w", localConfig, err)
	}
	want := strconv.Itoa(int(port))
	listens := cmp.Or(own.Port(), "443")
	if listens == want {
		return nil
	}
	// A program of the host's own may pass connections on.
	if err := request(ctx, server, net.JoinHostPort(own.Hostname(), want)); err != nil {
		return &PortError{Port: port, Listens: listens, Err: err}
	}
	return nil
}

// Answers implements vip.Server. It has connections of its own.
func (s *LocalServer) Answers(ctx context.Context, endpoint netip.AddrPort) error {
	server, err := s.server()
	if err != nil {
		return err
	}
	return request(ctx, server, endpoint.String())
}

// request makes a new connection to an API server of the cluster. Any answer will do once the
// certificate is verified: whether the server is ready, Ready finds out.
func request(ctx context.Context, server *rest.Config, at string) error {
	server = rest.CopyConfig(server)
	server.Host = "https://" + at
	client, err := rest.HTTPClientFor(server)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Host+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	get.Close = true
	response, err := client.Do(get)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// connect returns a client whose credentials are those of the files.
func (s *LocalServer) connect() (*kube.Workload, error) {
	f, err := s.readFiles()
	if err != nil {
		return nil, err
	}
	// A certificate lasts by the clock on the wall, which may be set back.
	now := s.Now().Round(0)
	if age := now.Sub(s.made); s.client != nil && s.files.equal(f) && age >= 0 && age < certificateLife/2 {
		return s.client, nil
	}
	server, err := f.server()
	if err != nil {
		return nil, err
	}
	config, err := s.narrow(server, f)
	if err != nil {
		return nil, err
	}
	client, err := kube.NewWorkload(config)
	if err != nil {
		return nil, err
	}
	if s.client != nil {
		s.client.Close()
	}
	s.client, s.files, s.made = client, f, now
	return client, nil
}
