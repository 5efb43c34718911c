package planeclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// CA returns the PEM of the plane's certificate authority.
func CA(inst *instance.Instance) ([]byte, error) {
	return pki.New(pki.Options{Dir: inst.Path("pki")}).CABundle()
}

// Status gathers what is in scope. A plane that does not run is a status, not an error.
func Status(ctx context.Context, inst *instance.Instance, connect management.Connect, scope status.Scope) (status.Status, error) {
	return gather(inst, connect, func(c client.Reader) (status.Status, error) {
		return status.Collect(ctx, c, scope, WorkloadNodes(inst, c))
	})
}

// Hosts is Status without clusters.
func Hosts(ctx context.Context, inst *instance.Instance, connect management.Connect, scope status.Scope) (status.Status, error) {
	return gather(inst, connect, func(c client.Reader) (status.Status, error) {
		hosts, err := status.Hosts(ctx, c, scope)
		return status.Status{Clusters: []status.Cluster{}, Hosts: hosts}, err
	})
}

func gather(inst *instance.Instance, connect management.Connect, collect func(client.Reader) (status.Status, error)) (status.Status, error) {
	none := status.Status{Clusters: []status.Cluster{}, Hosts: []status.Host{}}
	plane, err := planeStatus(inst)
	none.Plane = plane
	if err != nil || plane.PID == 0 {
		return none, err
	}
	c, err := connect()
	if errors.Is(err, management.ErrNotRunning) {
		return none, nil // it has not written its kubeconfig yet
	}
	if err != nil {
		return none, err
	}
	s, err := collect(c)
	if err != nil { // a plane that does not answer is a status, which says why
		if plane.Ready { // one that starts does not serve everything yet
			none.Plane.Ready, none.Plane.Message = false, err.Error()
		}
		return none, nil
	}
	s.Plane = plane
	return s, nil
}

func planeStatus(inst *instance.Instance) (status.Plane, error) {
	holder, running, err := statedir.Running(inst.Dir)
	if err != nil {
		return status.Plane{}, err
	}
	seen, err := statedir.ReadCrashes(inst.Dir)
	if err != nil {
		return status.Plane{}, err
	}
	plane := status.Plane{PID: holder.PID, Message: "starting", Unsupervised: holder.Unsupervised}
	last, err := statedir.LastBackup(inst.Dir)
	if err != nil {
		return plane, err
	}
	plane.LastBackup = (*snapshot.PlaneBackup)(last)
	crashed := ""
	if seen.Count > 0 {
		plane.Crashes = &status.PlaneCrashes{Count: seen.Count, Last: seen.Last, Reason: seen.What}
		crashed = fmt.Sprintf("; it crashed %s (log: %s)", plane.Crashes.Summary(time.Now()), inst.PlaneLog())
	}
	if !running {
		plane.Message = management.ErrNotRunning.Error() + crashed
		return plane, nil
	}
	if !holder.Start.IsZero() {
		plane.Start = &holder.Start
	}
	if seen.Count > 0 {
		plane.Message += crashed + "; it is started again each time, until `slipway down`"
	}
	recorded, err := statedir.ReadStatus(inst.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return plane, nil
	}
	if err != nil {
		return plane, err
	}
	plane.Server = recorded.Server
	if holder.PID == 0 || recorded.PID != holder.PID {
		return plane, nil
	}
	if recorded.Ready {
		plane.Ready, plane.Message = true, ""
	}
	return plane, outsideStatus(&plane, recorded.Outside)
}

// outsideStatus tells how hosts on other machines reach the plane, and whether they do.
func outsideStatus(plane *status.Plane, outside *statedir.Outside) error {
	if outside == nil {
		return nil
	}
	plane.HostServer = outside.Server
	gone, err := network.Gone(outside.Addresses)
	if len(gone) > 0 {
		plane.HostServerMessage = fmt.Sprintf("this machine has no address %s any more", strings.Join(gone, ", "))
	}
	return err
}
