package planeclient

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/atomicfile"
	"github.com/slipway-dev/slipway/plane/internal/forward"
	"github.com/slipway-dev/slipway/plane/internal/instance"
)

// kubeconfigSecretKey is where Cluster API puts the kubeconfig in its Secret
// (cluster-api util/secret, `value`).
const kubeconfigSecretKey = "value"

// clusterKubeconfig is the kubeconfig that the control plane made. Its server is
// an address of the hosts' network.
func clusterKubeconfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]byte, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := c.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("cluster %s has no kubeconfig yet: its control plane is not initialized, or there is no such cluster; see `slipway status`", cluster)
		}
		return nil, err
	}
	return secret.Data[kubeconfigSecretKey], nil
}

// WriteKubeconfig writes the kubeconfig of a workload cluster for use on this
// machine and returns its path: the server is the port on 127.0.0.1 that the
// plane forwards, the certificate is checked against the cluster's own address.
func WriteKubeconfig(ctx context.Context, inst *instance.Instance, c client.Reader, cluster client.ObjectKey) (string, error) {
	data, err := clusterKubeconfig(ctx, c, cluster)
	if err != nil {
		return "", err
	}
	table, err := forward.Read(inst.Dir)
	if err != nil {
		return "", err
	}
	port := table.Port(cluster)
	if port == 0 {
		return "", fmt.Errorf("cluster %s is not forwarded to this machine yet; try again in a moment", cluster)
	}
	if data, err = localKubeconfig(data, port); err != nil {
		return "", fmt.Errorf("kubeconfig of cluster %s: %w", cluster, err)
	}
	path := inst.Path("clusters", cluster.Namespace+"-"+cluster.Name+".kubeconfig")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	if old, err := readFileIfExists(path); err != nil || bytes.Equal(old, data) {
		return path, err
	}
	return path, atomicfile.Write(path, data, 0o600)
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
