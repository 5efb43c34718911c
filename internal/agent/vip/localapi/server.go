package localapi

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// The Lease of the election in the workload cluster, and who may write it.
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "slipway-control-plane-endpoint"
	// User is the common name of the agents' certificates.
	User = "slipway:control-plane-endpoint"
)

// Server implements vip.Server. It is not safe for concurrent use.
type Server struct {
	// Root is "/" but in tests.
	Root hostfs.Root
	// Now is the clock of certificates.
	Now func() time.Time

	files  files
	made   time.Time
	client *kube.Workload
}

// Ready implements vip.Server.
func (s *Server) Ready(ctx context.Context) error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	return client.Ready(ctx)
}

// Lease implements vip.Server.
func (s *Server) Lease(ctx context.Context) (*coordinationv1.Lease, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	lease, err := client.GetLease(ctx, LeaseNamespace, LeaseName)
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return lease, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("make the Lease %s/%s: %w", LeaseNamespace, LeaseName, err)
	}
	return client.GetLease(ctx, LeaseNamespace, LeaseName)
}

// UpdateLease implements vip.Server.
func (s *Server) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	stored, err := client.UpdateLease(ctx, lease)
	if apierrors.IsUnauthorized(err) {
		// The key of the authority was replaced: sign anew.
		s.made = time.Time{}
	}
	return stored, err
}

// connect returns a client whose credentials are those of the files.
func (s *Server) connect() (*kube.Workload, error) {
	f, err := s.readFiles()
	if err != nil {
		return nil, err
	}
	if s.client != nil && s.files.equal(f) && s.Now().Sub(s.made) < certificateLife/2 {
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
	s.client, s.files, s.made = client, f, s.Now()
	return client, nil
}
