package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

// managementFlags say which management cluster a command is about, and which namespace.
type managementFlags struct {
	program                        *Program
	kubeconfig, context, namespace string
}

// session is a management cluster that a command works on.
type session struct {
	client.WithWatch
	cluster *management.Cluster
	// namespace of -n, or of the kubeconfig's context.
	namespace string
}

func (s *session) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// bind adds the flags; of is what the namespace is of.
func (f *managementFlags) bind(command *cobra.Command, of string) {
	f.bindCluster(command)
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace "+of+"; that of the kubeconfig's context when empty, or default")
	f.completeNamespaces(command)
}

func (f *managementFlags) bindCluster(command *cobra.Command) {
	usage := "kubeconfig of a management cluster; that of kubectl when empty"
	if f.program.Local != nil {
		usage = "kubeconfig of a management cluster; the plane of this machine when empty, and without one that of kubectl"
	}
	command.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", usage)
	command.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig")
}

func (f *managementFlags) completeNamespaces(command *cobra.Command) {
	_ = command.RegisterFlagCompletionFunc("namespace", f.complete(namespaceNames))
}

// find returns the management cluster that is meant, and tells when another one could
// have been.
func (f *managementFlags) find(cmd *cobra.Command) (*management.Cluster, error) {
	choice := management.Choice{Kubeconfig: f.kubeconfig, Context: f.context}
	if local := f.program.Local; local != nil {
		choice.Plane, choice.PlaneGiven = local.Plane, local.Named(cmd)
	}
	cluster, err := management.Find(choice)
	if err == nil && cluster.PassedOver != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "Using %s, not KUBECONFIG (%s), for which there is --kubeconfig.\n", cluster.Name, cluster.PassedOver)
	}
	return cluster, err
}

// open connects to the management cluster that is meant.
func (f *managementFlags) open(cmd *cobra.Command) (*session, error) {
	cluster, err := f.find(cmd)
	if err != nil {
		return nil, err
	}
	return f.session(cluster)
}

// session connects to a management cluster.
func (f *managementFlags) session(cluster *management.Cluster) (*session, error) {
	c, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	s := &session{WithWatch: c, cluster: cluster, namespace: f.namespace}
	if s.namespace == "" {
		s.namespace = cluster.Namespace
	}
	return s, nil
}

// on runs what a command does on a management cluster.
func (f *managementFlags) on(run func(cmd *cobra.Command, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := f.open(cmd)
		if err != nil {
			return err
		}
		return s.cluster.Explain(run(cmd, s, args))
	}
}

// scopeFlags narrow what a command lists; without them it lists all namespaces.
type scopeFlags struct {
	managementFlags
	all      bool
	selector string
}

func (f *scopeFlags) bind(command *cobra.Command) {
	f.bindCluster(command)
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only what is in this namespace")
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "what is in all namespaces, which is the default")
	command.Flags().StringVarP(&f.selector, "selector", "l", "", "only what has these labels, as in rack=a,disk!=slow")
	command.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	f.completeNamespaces(command)
}

func (f *scopeFlags) scope() (status.Scope, error) {
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return status.Scope{}, fmt.Errorf("--selector %q: %w", f.selector, err)
	}
	return status.Scope{Namespace: f.namespace, Selector: selector}, nil
}

// none says that nothing of a kind, such as "hosts", is in scope.
func (f *scopeFlags) none(kind string) string {
	text := "No " + kind
	if f.selector != "" {
		text += " with labels " + f.selector
	}
	if f.namespace != "" {
		text += " in namespace " + f.namespace
	}
	return text
}

// target is the management cluster that is meant, and what of it.
func (f *scopeFlags) target(cmd *cobra.Command) (*management.Cluster, status.Scope, error) {
	scope, err := f.scope()
	if err != nil {
		return nil, scope, err
	}
	cluster, err := f.find(cmd)
	return cluster, scope, err
}
