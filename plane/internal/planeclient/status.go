package planeclient

import (
	"context"
	"errors"
	"io/fs"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/serve"
	"github.com/slipway-dev/slipway/plane/internal/status"
)

// CA returns the PEM of the plane's certificate authority.
func CA(inst *instance.Instance) ([]byte, error) {
	return pki.New(pki.Options{Dir: inst.Path("pki")}).CABundle()
}

// Status gathers everything. A plane that does not run is a status, not an error.
func Status(ctx context.Context, inst *instance.Instance) (status.Status, error) {
	s := status.Status{Clusters: []status.Cluster{}, Hosts: []status.Host{}}
	plane, err := planeStatus(inst)
	if err != nil || plane.PID == 0 {
		s.Plane = plane
		return s, err
	}
	c, err := New(inst)
	if errors.Is(err, ErrNotRunning) {
		s.Plane = plane // it has not written its kubeconfig yet
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if s, err = status.Collect(ctx, c, WorkloadNodes(inst, c)); err != nil {
		s = status.Status{Clusters: []status.Cluster{}, Hosts: []status.Host{}}
		plane.Ready, plane.Message = false, err.Error()
	}
	s.Plane = plane
	return s, nil
}

func planeStatus(inst *instance.Instance) (status.Plane, error) {
	holder, running, err := serve.Running(inst.Dir)
	if err != nil {
		return status.Plane{}, err
	}
	if !running {
		return status.Plane{Message: ErrNotRunning.Error()}, nil
	}
	plane := status.Plane{PID: holder.PID, Message: "starting"}
	recorded, err := serve.ReadStatus(inst.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return plane, nil
	}
	if err != nil {
		return plane, err
	}
	plane.Server = recorded.Server
	if recorded.Ready && recorded.PID == holder.PID {
		plane.Ready, plane.Message = true, ""
	}
	return plane, nil
}
