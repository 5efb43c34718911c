package management

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ErrNone means that nothing names a management cluster.
var ErrNone = errors.New("no management cluster: there is no kubeconfig, name one with --kubeconfig or KUBECONFIG")

// Choice is what the user said about the management cluster.
type Choice struct {
	// Kubeconfig is a file.
	Kubeconfig string
	// Overrides are kubectl's: the context, cluster and user in the kubeconfig, and how to act on the
	// API server. The first three mean a kubeconfig, and not the plane of this machine.
	Overrides clientcmd.ConfigOverrides
	// Plane opens the plane of this machine; a *NoPlaneError when there is none. Nil in a
	// program that knows no planes.
	Plane func() (Plane, error)
	// PlaneGiven says that the user named the plane, as against a default.
	PlaneGiven bool
}

// Cluster is a management cluster. It may not answer.
type Cluster struct {
	// Plane of this machine; nil for any other management cluster.
	Plane Plane
	// Name is for messages, as in: context "prod" of /home/ann/.kube/config.
	Name string
	// Context of the kubeconfig; empty for a plane, and inside of a cluster.
	Context string
	// Namespace of the context, or "default".
	Namespace string

	// beside is the directory of a plane of this machine which was not meant; empty without one.
	beside string
	config func() (*rest.Config, error)
	kept   keptClient
}

// Find returns the management cluster that is meant: that of --kubeconfig or of a context,
// cluster or user that was named; else the plane of a state directory that was named; else that
// of KUBECONFIG, or of the current context of ~/.kube/config, as for kubectl; else the plane of
// the default state directory; else that of the Pod this runs in.
//
// A kubeconfig that leads to the plane with the plane's own credential is the plane. What the
// plane's directory has, and who may open it, matters only when nothing else is named.
func Find(choice Choice) (*Cluster, error) {
	named := choice.Kubeconfig != "" || choice.Overrides.CurrentContext != "" || choice.Overrides.Context.Cluster != "" || choice.Overrides.Context.AuthInfo != ""
	if choice.Plane == nil || named {
		return byKubeconfig(choice)
	}
	found, planeErr := choice.Plane()
	if choice.PlaneGiven {
		if planeErr != nil {
			return nil, planeErr
		}
		return plane(found, choice), nil
	}
	if KubeconfigGiven() {
		cluster, err := byKubeconfig(choice)
		switch {
		case err != nil || planeErr != nil:
			return cluster, err
		case cluster.leadsTo(found):
			return plane(found, choice), nil
		}
		cluster.beside = found.Dir()
		return cluster, nil
	}
	var none *NoPlaneError
	switch {
	case planeErr == nil:
		return plane(found, choice), nil
	case !errors.As(planeErr, &none):
		return nil, fmt.Errorf("%w; --kubeconfig or --context names another management cluster", planeErr)
	}
	cluster, err := byKubeconfig(choice)
	if errors.Is(err, ErrNone) {
		return nil, fmt.Errorf("%w; there is no kubeconfig either: --kubeconfig names another management cluster", planeErr)
	}
	return cluster, err
}

// KubeconfigGiven reports whether kubectl would have a cluster without a flag: that of KUBECONFIG, or of
// the current context of ~/.kube/config. Such a file that cannot be read is given, too.
func KubeconfigGiven() bool {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return true
	}
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	return err != nil || config.CurrentContext != ""
}

func plane(found Plane, choice Choice) *Cluster {
	return &Cluster{Plane: found, Name: "the plane in " + found.Dir(), Namespace: "default", config: func() (*rest.Config, error) {
		config, err := found.Config()
		if err != nil {
			return nil, err
		}
		return withOverrides(config, &choice.Overrides)
	}}
}

// withOverrides is a config with what a user said about the requests to it.
func withOverrides(config *rest.Config, overrides *clientcmd.ConfigOverrides) (*rest.Config, error) {
	config = rest.CopyConfig(config)
	if as := overrides.AuthInfo; as.Impersonate != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: as.Impersonate, UID: as.ImpersonateUID, Groups: as.ImpersonateGroups, Extra: as.ImpersonateUserExtra}
	}
	if overrides.Timeout != "" {
		timeout, err := clientcmd.ParseTimeout(overrides.Timeout)
		if err != nil {
			return nil, fmt.Errorf("--request-timeout: %w", err)
		}
		config.Timeout = timeout
	}
	return config, nil
}

// leadsTo reports whether a kubeconfig is about a plane, with the credential of its administrator.
func (c *Cluster) leadsTo(p Plane) bool {
	own, err := p.Kubeconfig()
	if err != nil {
		return false
	}
	theirs, err := clientcmd.RESTConfigFromKubeConfig(own.Data)
	if err != nil {
		return false
	}
	config, err := c.config()
	return err == nil && config.Host == theirs.Host && reflect.DeepEqual(config.TLSClientConfig, theirs.TLSClientConfig)
}

// byKubeconfig follows kubectl's rules: the file that was named, or those of KUBECONFIG
// merged, or ~/.kube/config.
func byKubeconfig(choice Choice) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = choice.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &choice.Overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", files(rules), err)
	}
	c := &Cluster{Name: "the cluster of this Pod", config: loader.ClientConfig}
	name := cmp.Or(choice.Overrides.CurrentContext, raw.CurrentContext)
	_, known := raw.Contexts[name]
	switch {
	case known:
		c.Context, c.Name = name, fmt.Sprintf("context %q of %s", name, files(rules))
	case name != "":
		return nil, fmt.Errorf("there is no context %q in %s; `kubectl config get-contexts` shows what there is", name, files(rules))
	case choice.Kubeconfig != "" || len(raw.Contexts) > 0:
		return nil, fmt.Errorf("%s has no current context: name one with --context", files(rules))
	}
	if _, err := loader.ClientConfig(); clientcmd.IsEmptyConfig(err) {
		return nil, ErrNone
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	c.Namespace, _, err = loader.Namespace()
	return c, err
}

// Target is the cluster as a question before a change names it, with its API server, as in:
// context "prod" of /home/ann/.kube/config (https://192.0.2.1:6443).
func (c *Cluster) Target() string {
	config, err := c.config()
	if err != nil {
		return c.Name
	}
	return fmt.Sprintf("%s (%s)", c.Name, config.Host)
}

// files names where a kubeconfig was looked for.
func files(rules *clientcmd.ClientConfigLoadingRules) string {
	if rules.ExplicitPath != "" {
		return rules.ExplicitPath
	}
	var found []string
	for _, file := range rules.Precedence {
		if _, err := os.Stat(file); err == nil {
			found = append(found, file)
		}
	}
	if len(found) == 0 {
		return strings.Join(rules.Precedence, ", ")
	}
	return strings.Join(found, ", ")
}

// Config is how to reach the cluster, with the user's credential. A plane that does not
// run is ErrNotRunning.
func (c *Cluster) Config() (*rest.Config, error) { return c.config() }

// Client returns a client of the cluster, whose errors say which right is missing. A cluster that
// serves no hosts is a *NotManagementError, whatever the command reads.
func (c *Cluster) Client() (client.WithWatch, error) {
	plain, err := c.connect()
	if err != nil {
		return nil, err
	}
	if c.Plane == nil {
		_, err := plain.RESTMapper().RESTMapping(infrav1.GroupVersion.WithKind("Host").GroupKind())
		switch {
		case meta.IsNoMatchError(err):
			return nil, &NotManagementError{Target: c.Target(), beside: c.beside, err: err}
		case err != nil:
			return nil, err
		}
	}
	return c.withRights(plain), nil
}

// NotManagementError means that a cluster is no management cluster with Slipway.
type NotManagementError struct {
	// Target is the cluster with its API server.
	Target string
	// beside is the directory of a plane of this machine; empty without one.
	beside string
	err    error
}

func (e *NotManagementError) Error() string {
	other := "name one with --context or --kubeconfig"
	if e.beside != "" {
		other += ", or this machine's plane with --state-dir " + e.beside
	}
	return fmt.Sprintf("%s is not a Slipway management cluster: it has no hosts.%s; %s; `clusterctl init --infrastructure slipway` installs the provider", e.Target, infrav1.GroupVersion.Group, other)
}

// Unwrap returns the answer of the cluster.
func (e *NotManagementError) Unwrap() error { return e.err }

func (c *Cluster) connect() (client.WithWatch, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return c.kept.of(config)
}
