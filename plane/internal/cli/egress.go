package cli

import (
	"context"
	"net"
	"os"

	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// clusterDialer connects to the API server of a cluster.
type clusterDialer func(ctx context.Context, network, address string) (net.Conn, error)

// wayOut returns how the API servers of clusters are reached, and the proxy by which the
// controllers do that; nil for a plane that has no hosts on other machines. It changes the
// environment of this process, so it wants to be called before any client is made.
func wayOut(ctx context.Context, inst *instance.Instance, machine *os.File) (clusterDialer, *serve.Proxy, error) {
	at, err := inst.ListensAt()
	if err != nil {
		return nil, nil, err
	}
	if at == nil {
		return (&net.Dialer{}).DialContext, nil, serve.UseProxy("")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	dialer := network.MachineDialer{Namespace: machine, Refuse: serve.Refuse}
	return serve.DialOutbound(dialer), &serve.Proxy{Listener: listener, Dial: dialer.DialContext}, serve.UseProxy(listener.Addr().String())
}

// serveProxy lets controllers out, until ctx ends.
func serveProxy(ctx context.Context, p *serve.Proxy) {
	if err := p.Serve(ctx); err != nil {
		klog.ErrorS(err, "Clusters on other machines are no longer reached, until the plane is started again")
	}
}
