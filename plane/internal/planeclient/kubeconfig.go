package planeclient

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// OwnKubeconfig is the plane's.
func OwnKubeconfig(inst *instance.Instance) (management.Kubeconfig, error) {
	data, err := os.ReadFile(inst.Kubeconfig())
	return management.Kubeconfig{Data: data, Path: inst.Kubeconfig()}, err
}

// WorkloadKubeconfig is the kubeconfig of a workload cluster for use on this machine:
// the server is the port on 127.0.0.1 that the plane forwards, the certificate is
// checked against the cluster's own address.
func WorkloadKubeconfig(ctx context.Context, inst *instance.Instance, c client.Reader, cluster client.ObjectKey) (management.Kubeconfig, error) {
	data, err := management.ClusterKubeconfig(ctx, c, cluster)
	if err != nil {
		return management.Kubeconfig{}, err
	}
	table, err := statedir.ReadForwards(inst.Dir)
	if err != nil {
		return management.Kubeconfig{}, err
	}
	port := table.Port(cluster)
	if port == 0 {
		return management.Kubeconfig{}, fmt.Errorf("cluster %s is not forwarded to this machine yet; try again in a moment", cluster)
	}
	if data, err = localKubeconfig(data, port); err != nil {
		return management.Kubeconfig{}, fmt.Errorf("kubeconfig of cluster %s: %w", cluster, err)
	}
	return management.Kubeconfig{Data: data, Path: inst.Path("clusters", cluster.Namespace, cluster.Name+".kubeconfig")}, nil
}

func localKubeconfig(data []byte, port int) ([]byte, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, err
		}
		if cluster.TLSServerName == "" {
			cluster.TLSServerName = server.Hostname()
		}
		server.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		cluster.Server = server.String()
	}
	return clientcmd.Write(*config)
}
