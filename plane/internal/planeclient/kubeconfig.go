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
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/plane/internal/forward"
	"github.com/slipway-dev/slipway/plane/internal/instance"
)

// kubeconfigSecretKey is where Cluster API puts the kubeconfig in its Secret
// (cluster-api util/secret, `value`).
const kubeconfigSecretKey = "value"

// ClusterKubeconfig is the kubeconfig that the control plane made. Its server is
// an address of the hosts' network. Whoever may write a Secret can have written it, so
// one that names programs or files of this machine is refused.
func ClusterKubeconfig(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]byte, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := c.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("cluster %s has no kubeconfig yet: its control plane is not initialized, or there is no such cluster; see `slipway status`", cluster)
		}
		return nil, err
	}
	data := secret.Data[kubeconfigSecretKey]
	if _, err := workload.Parse(data); err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", cluster, err)
	}
	return data, nil
}

// Kubeconfig is one and where it belongs.
type Kubeconfig struct {
	Data []byte
	// Path is absolute.
	Path string
}

// Write writes it, for its user alone, unless it is there already.
func (k Kubeconfig) Write() (path string, err error) {
	if err := os.MkdirAll(filepath.Dir(k.Path), 0o700); err != nil {
		return "", err
	}
	if old, err := readFileIfExists(k.Path); err != nil || bytes.Equal(old, k.Data) {
		return k.Path, err
	}
	return k.Path, atomicfile.Write(k.Path, k.Data, 0o600)
}

// OwnKubeconfig is the plane's.
func OwnKubeconfig(inst *instance.Instance) (Kubeconfig, error) {
	data, err := os.ReadFile(inst.Kubeconfig())
	return Kubeconfig{Data: data, Path: inst.Kubeconfig()}, err
}

// WorkloadKubeconfig is the kubeconfig of a workload cluster for use on this machine:
// the server is the port on 127.0.0.1 that the plane forwards, the certificate is
// checked against the cluster's own address.
func WorkloadKubeconfig(ctx context.Context, inst *instance.Instance, c client.Reader, cluster client.ObjectKey) (Kubeconfig, error) {
	data, err := ClusterKubeconfig(ctx, c, cluster)
	if err != nil {
		return Kubeconfig{}, err
	}
	table, err := forward.Read(inst.Dir)
	if err != nil {
		return Kubeconfig{}, err
	}
	port := table.Port(cluster)
	if port == 0 {
		return Kubeconfig{}, fmt.Errorf("cluster %s is not forwarded to this machine yet; try again in a moment", cluster)
	}
	if data, err = localKubeconfig(data, port); err != nil {
		return Kubeconfig{}, fmt.Errorf("kubeconfig of cluster %s: %w", cluster, err)
	}
	return Kubeconfig{Data: data, Path: inst.Path("clusters", cluster.Namespace+"-"+cluster.Name+".kubeconfig")}, nil
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
