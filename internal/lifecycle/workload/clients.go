package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/lru"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Timeout bounds each request to a workload cluster.
const Timeout = 10 * time.Second

// maxClients bounds the clients that are kept; the one not used for longest goes.
const maxClients = 256

// Cluster is the access to one workload cluster.
type Cluster struct {
	// Client reads and writes without a cache. Kinds are looked up in the workload
	// cluster when they are first used, and again when one is not known.
	client.Client
	// Config for clients of another sort. Not to be changed.
	Config *rest.Config
}

// Clients gives access to workload clusters.
type Clients interface {
	// For returns access to the workload cluster of a Cluster. Whether it answers is
	// only found out by using it. An error is an *UnavailableError, unless the
	// management cluster did not answer; errors of requests that got no answer are
	// such, too.
	For(ctx context.Context, cluster types.NamespacedName) (*Cluster, error)
}

// New returns Clients that find kubeconfigs with reader, which must not be a cache:
// that would hold all Secrets in memory and need the right to list them.
// userAgent is what the workload clusters log.
func New(reader client.Reader, userAgent string) Clients {
	return &clients{reader: reader, userAgent: userAgent, cached: lru.New(maxClients)}
}

type clients struct {
	reader    client.Reader
	userAgent string
	cached    *lru.Cache
}

// version tells one state of a kubeconfig Secret from every other.
type version struct {
	uid             types.UID
	resourceVersion string
}

type entry struct {
	version version
	cluster *Cluster
}

// For implements Clients.
func (c *clients) For(ctx context.Context, cluster types.NamespacedName) (*Cluster, error) {
	kubeconfig, err := secret.GetFromNamespacedName(ctx, c.reader, cluster, secret.Kubeconfig)
	if apierrors.IsNotFound(err) {
		c.cached.Remove(cluster)
		return nil, &UnavailableError{
			Cluster: cluster,
			Problem: fmt.Sprintf("there is no Secret %s", secret.Name(cluster.Name, secret.Kubeconfig)),
			Remedy:  "the control plane provider writes it; look at the control plane, or skip the step",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of Cluster %s: %w", cluster, err)
	}
	current := version{kubeconfig.UID, kubeconfig.ResourceVersion}
	if cached, ok := c.cached.Get(cluster); ok && cached.(entry).version == current {
		return cached.(entry).cluster, nil
	}
	made, err := c.connect(cluster, kubeconfig)
	if err != nil {
		return nil, &UnavailableError{
			Cluster: cluster,
			Problem: fmt.Sprintf("the kubeconfig in Secret %s cannot be used", kubeconfig.Name),
			Remedy:  "correct the key value of the Secret",
			Err:     err,
		}
	}
	c.cached.Add(cluster, entry{current, made})
	return made, nil
}

func (c *clients) connect(cluster types.NamespacedName, kubeconfig *corev1.Secret) (*Cluster, error) {
	config, err := Parse(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, err
	}
	config.UserAgent = c.userAgent
	config.Timeout = Timeout
	config.QPS, config.Burst = 50, 100
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return explaining{cluster, next} })
	made, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: made, Config: config}, nil
}

// UnavailableError says why a workload cluster cannot be worked on, and what to do.
type UnavailableError struct {
	// Cluster whose workload cluster it is.
	Cluster types.NamespacedName
	// Problem in a few words, with its object or address.
	Problem string
	// Remedy tells what to do.
	Remedy string
	// Err is the cause; nil when the problem says all.
	Err error
}

// Error returns the problem, its cause and the remedy.
func (e *UnavailableError) Error() string {
	problem := e.Problem
	if e.Err != nil {
		problem = fmt.Sprintf("%s: %v", e.Problem, e.Err)
	}
	return fmt.Sprintf("workload cluster of Cluster %s: %s; %s", e.Cluster, problem, e.Remedy)
}

// Unreached tells package step that nothing is known of the workload cluster.
func (*UnavailableError) Unreached() bool { return true }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// IsUnavailable says whether err is, or wraps, an *UnavailableError: the workload
// cluster was not reached, so nothing is known of what is in it.
func IsUnavailable(err error) bool {
	var unavailable *UnavailableError
	return errors.As(err, &unavailable)
}

// explaining turns what keeps a request from being answered into an UnavailableError.
type explaining struct {
	cluster types.NamespacedName
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t explaining) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil || errors.Is(err, context.Canceled) {
		return response, err
	}
	return response, &UnavailableError{
		Cluster: t.cluster,
		Problem: "its API server at " + request.URL.Host + " does not answer",
		Remedy:  "look at its control plane and at spec.controlPlaneEndpoint, or skip the step if the cluster is lost",
		Err:     err,
	}
}

// PageSize is how many objects are read at once.
const PageSize = 250

// Each calls visit with every object of a kind that options select, page by page, in
// the order of namespaces and names. It stops at the first error. The API server may
// forget a list that takes minutes to read: the error is then ResourceExpired.
func (c *Cluster) Each(ctx context.Context, kind schema.GroupVersionKind, visit func(*unstructured.Unstructured) error, options ...client.ListOption) error {
	kind.Kind += "List"
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind)
		if err := c.List(ctx, page, append(options[:len(options):len(options)], client.Limit(PageSize), client.Continue(next))...); err != nil {
			return fmt.Errorf("list %s: %w", kind.GroupKind(), err)
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// Parse returns the current context of a kubeconfig. Whoever may write a Secret wrote
// it, so it may neither run a program nor read a file of this process, and what it says is
// sent to the server that it verifies alone: with InsecureSkipTLSVerify or a proxy anybody
// in between is administrator of the cluster.
func Parse(data []byte) (*rest.Config, error) {
	kubeconfig, err := clientcmd.Load(data)
	if err != nil {
		// The text of the parser may quote what is a secret.
		return nil, errors.New("it is no kubeconfig")
	}
	for name, user := range kubeconfig.AuthInfos {
		if setting := outsideOfUser(user); setting != "" {
			return nil, fmt.Errorf("user %q has %s, which is not allowed: credentials must be in the kubeconfig itself", name, setting)
		}
	}
	for name, cluster := range kubeconfig.Clusters {
		switch {
		case cluster.CertificateAuthority != "":
			return nil, fmt.Errorf("cluster %q has certificate-authority, which is not allowed: use certificate-authority-data", name)
		case cluster.InsecureSkipTLSVerify:
			return nil, fmt.Errorf("cluster %q has insecure-skip-tls-verify, which is not allowed: use certificate-authority-data", name)
		case cluster.ProxyURL != "":
			return nil, fmt.Errorf("cluster %q has proxy-url, which is not allowed: its server must be reached directly", name)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(config.Host, "https://") {
		return nil, errors.New("its server has no address that begins with https://")
	}
	return config, nil
}

// outsideOfUser names the setting that takes credentials from outside of the
// kubeconfig; "" when there is none.
func outsideOfUser(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil:
		return "exec"
	case user.AuthProvider != nil:
		return "auth-provider"
	case user.TokenFile != "":
		return "tokenFile"
	case user.ClientCertificate != "":
		return "client-certificate"
	case user.ClientKey != "":
		return "client-key"
	}
	return ""
}
