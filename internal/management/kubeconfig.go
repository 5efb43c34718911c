package management

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

// kubeconfigSecretKey is where Cluster API puts the kubeconfig in its Secret
// (cluster-api util/secret, `value`).
const kubeconfigSecretKey = "value"

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
	return k.Path, durable.Write(k.Path, k.Data, 0o600)
}

// Merge adds its context to the kubeconfig that kubectl changes, and returns the name of the context and
// that file. The current context stays, if there is one. A cluster or a user of the name with another
// server or of another context is refused, and nothing is changed.
func (k Kubeconfig) Merge() (name, file string, err error) {
	from, err := clientcmd.Load(k.Data)
	if err != nil {
		return "", "", err
	}
	options := clientcmd.NewDefaultPathOptions()
	into, err := options.GetStartingConfig()
	if err != nil {
		return "", "", err
	}
	name, file = from.CurrentContext, options.GetDefaultFilename()
	added := from.Contexts[name]
	if added == nil || from.Clusters[added.Cluster] == nil || from.AuthInfos[added.AuthInfo] == nil {
		return "", "", errors.New("the kubeconfig has no current context")
	}
	if old := into.Clusters[added.Cluster]; old != nil && old.Server != from.Clusters[added.Cluster].Server {
		return "", "", fmt.Errorf("%s has another cluster %s, at %s: `kubectl config rename-context` and `kubectl config delete-cluster %[2]s` make room, or use --raw", file, added.Cluster, old.Server)
	}
	for other, context := range into.Contexts {
		if context.AuthInfo == added.AuthInfo && context.Cluster != added.Cluster {
			return "", "", fmt.Errorf("%s has another user %s, of context %s: use --raw", file, added.AuthInfo, other)
		}
	}
	into.Clusters[added.Cluster], into.AuthInfos[added.AuthInfo], into.Contexts[name] = from.Clusters[added.Cluster], from.AuthInfos[added.AuthInfo], added
	into.CurrentContext = cmp.Or(into.CurrentContext, name)
	return name, file, clientcmd.ModifyConfig(options, *into, false)
}

func readFileIfExists(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

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

// WorkloadKubeconfig is the kubeconfig of a workload cluster for use on this machine.
// That of a cluster whose management cluster is no plane of this machine belongs below
// the user's configuration directory, apart for each API server, as names of clusters
// are not unique.
func (c *Cluster) WorkloadKubeconfig(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (Kubeconfig, error) {
	if c.Plane != nil {
		return c.Plane.WorkloadKubeconfig(ctx, reader, cluster)
	}
	config, err := c.config()
	if err != nil {
		return Kubeconfig{}, err
	}
	data, err := ClusterKubeconfig(ctx, reader, cluster)
	if err != nil {
		return Kubeconfig{}, err
	}
	dir, err := configDir()
	if err != nil {
		return Kubeconfig{}, err
	}
	server := sha256.Sum256([]byte(config.Host))
	path := filepath.Join(dir, "slipway", "clusters", hex.EncodeToString(server[:6]), cluster.Namespace, cluster.Name+".kubeconfig")
	return Kubeconfig{Data: data, Path: path}, nil
}

// configDir is the same on every system: a path is printed for shells, and the one of
// macOS has a space in it.
func configDir() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config"), err
}
