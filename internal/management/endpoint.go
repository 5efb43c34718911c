package management

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
)

// rootCAConfigMap is in every namespace of a cluster whose kube-controller-manager
// publishes the CA of its API server, as all since Kubernetes 1.20 do.
const rootCAConfigMap = "kube-root-ca.crt"

// Endpoint is how hosts reach the API server of a management cluster.
type Endpoint struct {
	// Server is an https URL.
	Server string
	// CA verifies it, PEM.
	CA []byte
}

// Endpoint returns how hosts reach the cluster. An empty server stands for the address
// that is known: of a plane that at which it listens for other machines, or that of its local
// hosts' network, else the kubeconfig's.
// Where the kubeconfig has no CA, that of the namespace is read.
func (c *Cluster) Endpoint(ctx context.Context, reader client.Reader, namespace, server string) (Endpoint, error) {
	config, err := c.config()
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{Server: server}
	if c.Plane != nil {
		if server == "" {
			e.Server = c.Plane.Server()
		}
		if e.CA, err = c.Plane.CA(); err != nil {
			return Endpoint{}, err
		}
		return e, checkServer(e.Server)
	}
	if server == "" {
		e.Server = config.Host
	}
	if err := checkServer(e.Server); err != nil {
		return Endpoint{}, err
	}
	e.CA, err = clusterCA(ctx, reader, config, namespace)
	return e, err
}

// checkServer refuses what an agent would.
func checkServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("--server %q: want the https URL of the API server as the hosts see it", server)
	}
	if enroll.Loopback(server) {
		return fmt.Errorf("%s is the loopback of this machine, which no other host reaches: name the API server as the hosts see it with --server", server)
	}
	return nil
}

func clusterCA(ctx context.Context, reader client.Reader, config *rest.Config, namespace string) ([]byte, error) {
	switch {
	case config.Insecure:
		return nil, errors.New("the kubeconfig does not verify its server (insecure-skip-tls-verify), and hosts must: use one with certificate-authority-data")
	case len(config.CAData) > 0:
		return config.CAData, nil
	case config.CAFile != "":
		return os.ReadFile(config.CAFile)
	}
	published := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: rootCAConfigMap}, published)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("neither the kubeconfig nor ConfigMap %s/%s has the CA of the API server: use a kubeconfig with certificate-authority-data", namespace, rootCAConfigMap)
	}
	return []byte(published.Data["ca.crt"]), err
}
