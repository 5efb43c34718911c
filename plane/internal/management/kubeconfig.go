package management

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/plane/internal/planeclient"
)

// WorkloadKubeconfig is the kubeconfig of a workload cluster of a management cluster
// that is not a plane of this machine. It belongs below the user's configuration
// directory, apart for each API server, as names of clusters are not unique.
func WorkloadKubeconfig(ctx context.Context, c *Cluster, reader client.Reader, cluster client.ObjectKey) (planeclient.Kubeconfig, error) {
	config, err := c.config()
	if err != nil {
		return planeclient.Kubeconfig{}, err
	}
	data, err := planeclient.ClusterKubeconfig(ctx, reader, cluster)
	if err != nil {
		return planeclient.Kubeconfig{}, err
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return planeclient.Kubeconfig{}, err
	}
	server := sha256.Sum256([]byte(config.Host))
	path := filepath.Join(dir, "slipway", "clusters", hex.EncodeToString(server[:6]), cluster.Namespace, cluster.Name+".kubeconfig")
	return planeclient.Kubeconfig{Data: data, Path: path}, nil
}
