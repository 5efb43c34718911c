package planeclient

import (
	"context"
	"io"
	"os"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Plane is a plane of this machine as commands on management clusters see it.
type Plane struct {
	Instance *instance.Instance
	// Manager of its local hosts.
	Manager *localhost.Manager
	// Services of the machine, of which the plane may be one.
	Services service.Machine
}

var _ management.Plane = Plane{}

// Dir is the state directory.
func (p Plane) Dir() string { return p.Instance.Dir }

// Server is the URL of the API server as hosts see it: those on other machines, if it
// listens for them. What was chosen since the plane started is not what it does.
func (p Plane) Server() string {
	record := statedir.Current(p.Instance.Dir)
	switch {
	case record == nil:
		return p.Instance.HostServer()
	case record.Outside == nil:
		return p.Instance.Server()
	}
	return record.Outside.Server
}

// CA is what the API server is verified by, PEM.
func (p Plane) CA() ([]byte, error) { return CA(p.Instance) }

// Config is how New reaches the plane.
func (p Plane) Config() (*rest.Config, error) { return Config(p.Instance) }

// Status gathers what is in scope.
func (p Plane) Status(ctx context.Context, connect management.Connect, scope status.Scope) (status.Status, error) {
	s, err := Status(ctx, p.Instance, connect, scope)
	if err != nil {
		return s, err
	}
	s.Plane.Service, err = p.service(ctx)
	return s, err
}

// service tells how systemd runs the plane; empty when it does not.
func (p Plane) service(ctx context.Context) (string, error) {
	installed, err := p.Services.Find(p.Instance.Dir)
	if err != nil || installed == nil {
		return "", err
	}
	return installed.Summary(ctx), nil
}

// Hosts is Status without clusters.
func (p Plane) Hosts(ctx context.Context, connect management.Connect, scope status.Scope) (status.Status, error) {
	return Hosts(ctx, p.Instance, connect, scope)
}

// Nodes lists the Nodes of workload clusters inside the plane's network.
func (p Plane) Nodes(reader client.Reader) status.NodeLister {
	return WorkloadNodes(p.Instance, reader)
}

// Kubeconfig is the plane's own.
func (p Plane) Kubeconfig() (management.Kubeconfig, error) { return OwnKubeconfig(p.Instance) }

// WorkloadKubeconfig leads to a port of this machine that the plane forwards.
func (p Plane) WorkloadKubeconfig(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (management.Kubeconfig, error) {
	return WorkloadKubeconfig(ctx, p.Instance, reader, cluster)
}

// LocalLog writes the log of a service of a local host.
func (p Plane) LocalLog(ctx context.Context, out io.Writer, host, service string, q management.LogQuery) error {
	if service == "kernel" {
		return sandbox.ErrNoKernelLog
	}
	return sandbox.ShowLog(ctx, out, func() (*os.File, error) { return p.Manager.OpenLog(host, service, "") }, sandbox.LogQuery(q))
}

// LocalHosts looks at the hosts from outside.
func (p Plane) LocalHosts(ctx context.Context) ([]management.LocalHost, error) {
	hosts, err := p.Manager.List(ctx)
	if err != nil {
		return nil, err
	}
	local := make([]management.LocalHost, 0, len(hosts))
	for _, h := range hosts {
		local = append(local, management.LocalHost{Namespace: localhost.Namespace, Name: h.Name, MachineID: h.MachineID, State: string(h.State), Address: h.IP.String(), PID: h.PID})
	}
	return local, nil
}
