package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

// managementFlags say which management cluster a command is about, and which namespace.
type managementFlags struct {
	program               *Program
	kubeconfig, namespace string
	overrides             clientcmd.ConfigOverrides
	// ofPlane says that the plane of this machine is meant, where no kubeconfig is named.
	ofPlane bool
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
	usage := "kubeconfig of a management cluster (default: kubectl's)"
	if f.program.Local != nil {
		usage = "kubeconfig of a management cluster (default: kubectl's, else this machine's plane)"
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", usage)
	clientcmd.BindOverrideFlags(&f.overrides, flags, clientcmd.ConfigOverrideFlags{
		CurrentContext: clientcmd.FlagInfo{LongName: clientcmd.FlagContext, Description: "context of the kubeconfig"},
		Timeout:        clientcmd.FlagInfo{LongName: clientcmd.FlagTimeout, Default: "0", Description: "how long a single request may take, such as 30s; 0 for as long as it takes"},
		ContextOverrideFlags: clientcmd.ContextOverrideFlags{
			AuthInfoName: clientcmd.FlagInfo{LongName: clientcmd.FlagAuthInfoName, Description: "user of the kubeconfig"},
		},
		AuthOverrideFlags: clientcmd.AuthOverrideFlags{
			Impersonate:       clientcmd.FlagInfo{LongName: clientcmd.FlagImpersonate, Description: "user to impersonate"},
			ImpersonateUID:    clientcmd.FlagInfo{LongName: clientcmd.FlagImpersonateUID, Description: "UID of the user to impersonate"},
			ImpersonateGroups: clientcmd.FlagInfo{LongName: clientcmd.FlagImpersonateGroup, Description: "group to impersonate; may be given several times"},
		},
	})
	// A command may have a flag of such a name for something else, as --user of SSH.
	command.Flags().AddFlagSet(flags)
	_ = command.RegisterFlagCompletionFunc(clientcmd.FlagContext, f.completeContexts)
}

func (f *managementFlags) completeNamespaces(command *cobra.Command) {
	_ = command.RegisterFlagCompletionFunc("namespace", f.complete(namespaceNames))
}

// find returns the management cluster that is meant.
func (f *managementFlags) find(cmd *cobra.Command) (*management.Cluster, error) {
	choice := management.Choice{Kubeconfig: f.kubeconfig, Overrides: f.overrides}
	if local := f.program.Local; local != nil {
		choice.Plane, choice.PlaneGiven = local.Plane, f.ofPlane || local.Named(cmd)
	}
	return management.Find(choice)
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
		cluster, err := f.find(cmd)
		if err != nil {
			return err
		}
		s, err := f.session(cluster)
		if err != nil {
			return cluster.Explain(err)
		}
		return cluster.Explain(run(cmd, s, args))
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
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces (default)")
	command.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector, e.g. rack=a,disk!=slow")
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
