package inventory

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

const (
	// endpointTimeout bounds one request to the endpoint.
	endpointTimeout = 4 * time.Second
	// endpointInterval is how long an answer counts: identity and inventory want it in turn.
	endpointInterval = 5 * time.Second
	// maxEndpointMessage is what the API takes.
	maxEndpointMessage = 512
)

// kubeconfigs name the endpoint of the cluster; the kubelet of a control plane uses the API server of its own host.
var kubeconfigs = []string{"/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf"}

// Endpoint finds out whether a node reaches the API server at the control-plane endpoint of its cluster. It
// remembers since when it does not. It has no credential: any answer will do.
type Endpoint struct {
	Root hostfs.Root
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	checked time.Time
	failure *infrav1.HostEndpointFailure
	// config is what client was made of.
	config string
	client *http.Client
}

// Failure returns why the endpoint is not reached; nil while it is, and where no endpoint is known.
func (e *Endpoint) Failure(ctx context.Context) *infrav1.HostEndpointFailure {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	if !e.checked.IsZero() && now.Sub(e.checked) < endpointInterval {
		return e.failure
	}
	server, err := e.request(ctx)
	switch {
	case err == nil:
		e.failure = nil
	case e.failure == nil || e.failure.Server != server:
		e.failure = &infrav1.HostEndpointFailure{Server: server, Since: metav1.NewTime(now.Truncate(time.Second))}
		fallthrough
	default:
		failure := *e.failure
		failure.Message = err.Error()[:min(len(err.Error()), maxEndpointMessage)]
		e.failure = &failure
	}
	e.checked = e.Now()
	return e.failure
}

// request asks the API server whether it lives, and returns its URL.
func (e *Endpoint) request(ctx context.Context) (server string, err error) {
	for _, path := range kubeconfigs {
		data, err := e.Root.ReadFile(path)
		if err != nil {
			continue
		}
		config := kubeconfig{}
		if err := yaml.Unmarshal(data, &config); err != nil || len(config.Clusters) == 0 {
			continue
		}
		cluster := config.Clusters[0].Cluster
		if e.client == nil || e.config != string(data) {
			e.config, e.client = string(data), clientOf(cluster.CA)
		}
		ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, cluster.Server+"/livez", http.NoBody)
		if err != nil {
			return "", nil
		}
		answer, err := e.client.Do(request)
		if err != nil {
			return cluster.Server, err
		}
		return cluster.Server, answer.Body.Close()
	}
	return "", nil
}

// kubeconfig is what is needed of a kubeconfig as kubeadm writes it.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"` //nolint:tagliatelle // kubeconfigs have it so
		} `json:"cluster"`
	} `json:"clusters"`
}

// clientOf is a client that trusts the cluster's CA alone.
func clientOf(ca []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: (&net.Dialer{}).DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			MaxIdleConns: 1, IdleConnTimeout: time.Minute,
		},
	}
}
