package management

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNone means that nothing names a management cluster.
var ErrNone = errors.New("no management cluster: there is no kubeconfig, name one with --kubeconfig or KUBECONFIG")

// Choice is what the user said about the management cluster.
type Choice struct {
	// Kubeconfig is a file, Context the name of a context in it or, without it, in the
	// kubeconfig that kubectl would use. Either means: not the plane of this machine.
	Kubeconfig, Context string
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
	// PassedOver is the value of KUBECONFIG when it names another cluster and was not
	// used; empty when nothing was passed over.
	PassedOver string

	config func() (*rest.Config, error)
	kept   keptClient
}

// Find returns the management cluster that is meant: that of --kubeconfig or --context;
// else the plane of a state directory that was named; else the plane of the default
// one; else that of kubectl's kubeconfig, or of the Pod this runs in.
//
// A plane comes before KUBECONFIG since that names its workload clusters, too: commands
// about the plane must not change their meaning with it. Whether the plane runs, and
// whether this user may use it, changes nothing either.
func Find(choice Choice) (*Cluster, error) {
	if choice.Kubeconfig != "" || choice.Context != "" || choice.Plane == nil {
		return byKubeconfig(choice)
	}
	found, err := choice.Plane()
	var none *NoPlaneError
	switch {
	case err == nil:
		return plane(found, choice.PlaneGiven), nil
	case choice.PlaneGiven:
		return nil, err
	case !errors.As(err, &none):
		return nil, fmt.Errorf("%w; --kubeconfig names another management cluster", err)
	}
	cluster, kubeconfigErr := byKubeconfig(choice)
	if errors.Is(kubeconfigErr, ErrNone) {
		return nil, fmt.Errorf("%w; there is no kubeconfig either: --kubeconfig names another management cluster", err)
	}
	return cluster, kubeconfigErr
}

func plane(found Plane, given bool) *Cluster {
	c := &Cluster{Plane: found, Name: "the plane in " + found.Dir(), Namespace: "default", config: found.Config}
	if env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); env != "" && !given && !ownKubeconfigs(found.Dir(), env) {
		c.PassedOver = env
	}
	return c
}

// ownKubeconfigs says whether all files of a KUBECONFIG belong to the plane of a state
// directory: its own kubeconfig and those of its workload clusters.
func ownKubeconfigs(stateDir, env string) bool {
	for _, file := range filepath.SplitList(env) {
		if rel, err := filepath.Rel(stateDir, file); file != "" && (err != nil || rel == ".." || strings.HasPrefix(rel, "../")) {
			return false
		}
	}
	return true
}

// byKubeconfig follows kubectl's rules: the file that was named, or those of KUBECONFIG
// merged, or ~/.kube/config.
func byKubeconfig(choice Choice) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = choice.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: choice.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", files(rules), err)
	}
	c := &Cluster{Name: "the cluster of this Pod", config: loader.ClientConfig}
	name := raw.CurrentContext
	if choice.Context != "" {
		name = choice.Context
	}
	_, known := raw.Contexts[name]
	switch {
	case known:
		c.Context, c.Name = name, fmt.Sprintf("context %q of %s", name, files(rules))
	case choice.Context != "" || name != "":
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

// Client returns a client of the cluster, whose errors say which right is missing.
func (c *Cluster) Client() (client.WithWatch, error) {
	plain, err := c.connect()
	if err != nil {
		return nil, err
	}
	return c.withRights(plain), nil
}

func (c *Cluster) connect() (client.WithWatch, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return c.kept.of(config)
}
