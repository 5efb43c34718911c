package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/clusters"
)

// clusterCreateFlags describe a new cluster.
type clusterCreateFlags struct {
	managementFlags
	waitFlags
	options clusters.Options
	pools   []string
	cni     string
	// dryRun is "", client or server.
	dryRun string
	output string
}

func clusterCreateCommand(p *Program) *cobra.Command {
	f := &clusterCreateFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "create CLUSTER",
		Short: "Create a cluster of a ClusterClass",
		Long: `Create a Cluster of a ClusterClass, a MachineHealthCheck for its pools, and what
installs its pod network. The ClusterClass of the release is created where it is
missing. The Cluster is created last: after an interruption the same command continues.

--endpoint is an unused address of the hosts' network, which the control-plane hosts
share; with --set endpointType=External, that of your load balancer. The default version
is the newest that a host of the namespace has.

--dry-run prints the objects and creates nothing, to commit or change them first;
--dry-run=server has the API server and its webhooks check them, too.`,
		Example: `  slipway cluster create prod --control-planes 3 --pool pool=5 --endpoint 192.0.2.100 --wait
  slipway cluster create edge --endpoint lb.example.com:6443 --set endpointType=External --cni calico.yaml
  slipway cluster create dual --endpoint 192.0.2.100 --pod-cidr 10.244.0.0/16,fd00:10:244::/56
  slipway cluster create prod --endpoint 192.0.2.100 --dry-run > prod.yaml`,
		Args:              cobra.ExactArgs(1),
		RunE:              f.on(f.create),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.managementFlags.bind(command, "of the cluster")
	flags, o := command.Flags(), &f.options
	flags.StringVar(&o.Class, "class", "", "ClusterClass, in the namespace of the cluster; slipway-local where \"slipway up\" has installed it, else slipway")
	flags.StringVar(&o.Version, "kubernetes-version", "", "version of Kubernetes, such as v1.36.3; the newest that a host of the namespace has when empty")
	flags.Int32Var(&o.ControlPlanes, "control-planes", 1, "how many control planes: 1, 3 or 5")
	flags.StringArrayVar(&f.pools, "pool", []string{"pool=1"}, "pool of workers, as NAME=REPLICAS; may be given several times")
	flags.StringVar(&o.Endpoint, "endpoint", "", "address of the control plane, as HOST[:PORT]")
	flags.StringVar(&o.PodCIDR, "pod-cidr", "", networkUsage("pods", clusters.DefaultPodCIDR, clusters.DefaultPodCIDR6))
	flags.StringVar(&o.ServiceCIDR, "service-cidr", "", networkUsage("services", clusters.DefaultServiceCIDR, clusters.DefaultServiceCIDR6))
	flags.StringArrayVar(&o.Variables, "set", nil, "variable of the ClusterClass, as NAME=VALUE with YAML as the value; may be given several times")
	flags.StringVar(&f.cni, "cni", "flannel", "pod network: flannel, whose image host bundles hold; none; or a file with the manifest of another one")
	flags.StringVar(&f.dryRun, "dry-run", "none", "client prints the objects and creates nothing, which is meant without a value; server has the API server check them first")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	completeFlag(command, "dry-run", dryRuns)
	_ = command.MarkFlagRequired("endpoint")
	_ = command.RegisterFlagCompletionFunc("class", f.complete(classNames))
	_ = command.RegisterFlagCompletionFunc("kubernetes-version", f.complete(versionNames))
	completeFlag(command, "pool", nil)
	f.waitFlags.bind(command, "what it asks for is there")
	command.MarkFlagsMutuallyExclusive("dry-run", "wait")
	outputFlag(command, &f.output, listFormats...)
	return command
}

func networkUsage(what, four, six string) string {
	return fmt.Sprintf("network of the %s, or one of each family separated by a comma, the primary one first; %s when empty, or %s with an endpoint of IPv6", what, four, six)
}

func classNames(cmd *cobra.Command, s *session, _ []string) ([]string, error) {
	list := &clusterv1.ClusterClassList{}
	err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
	return namesOf(list.Items, func(class *clusterv1.ClusterClass) string { return class.Name }), err
}

// Values of --dry-run, as of kubectl.
const (
	dryRunClient = "client"
	dryRunServer = "server"
)

var dryRuns = []string{"none", dryRunClient, dryRunServer}

func (f *clusterCreateFlags) create(cmd *cobra.Command, s *session, args []string) error {
	if !slices.Contains(dryRuns, f.dryRun) {
		return fmt.Errorf("--dry-run %q: want %s", f.dryRun, strings.Join(dryRuns, " or "))
	}
	o := f.options
	o.Namespace, o.Name = s.namespace, args[0]
	var err error
	if o.Pools, err = clusters.ParsePools(f.pools); err != nil {
		return err
	}
	if o.Network, err = readNetwork(f.cni); err != nil {
		return err
	}
	if o.Version == "" {
		if o.Version, err = newestVersion(cmd, s); err != nil {
			return err
		}
	}
	if o.Class == "" {
		if o.Class, err = change.DefaultClass(cmd.Context(), s, s.namespace); err != nil {
			return err
		}
	}
	objects, err := change.NewCluster(cmd.Context(), s, o)
	if err != nil {
		if apierrors.IsNotFound(err) {
			known, _ := classNames(cmd, s, nil)
			err = fmt.Errorf("there is no ClusterClass %s in namespace %s; there are: %s", o.Class, s.namespace, strings.Join(append(known, clusters.DefaultClass+" (created when it is missing)"), ", "))
		}
		return err
	}
	switch f.dryRun {
	case dryRunServer:
		var copies []client.Object // without what the server fills in
		for _, object := range objects {
			copies = append(copies, object.DeepCopyObject().(client.Object))
		}
		if err := createAll(cmd, s, copies, client.DryRunAll); err != nil {
			return err
		}
		return f.print(cmd, objects)
	case dryRunClient:
		if err := s.Get(cmd.Context(), s.key(o.Name), &clusterv1.Cluster{}); err == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "There is a Cluster %s in namespace %s already: without --dry-run this fails.\n", o.Name, s.namespace)
		}
		return f.print(cmd, objects)
	}
	if err := createAll(cmd, s, objects); err != nil {
		return err
	}
	return f.waitFor(cmd, s, o.Name, f.output)
}

func readNetwork(cni string) (clusters.Network, error) {
	switch cni {
	case "flannel":
		return clusters.Network{Flannel: true}, nil
	case "none":
		return clusters.Network{}, nil
	}
	manifest, err := os.ReadFile(cni)
	if err == nil && len(manifest) == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return clusters.Network{}, fmt.Errorf("--cni %s: %w; give flannel, none, or the file with the manifest of a pod network", cni, err)
	}
	return clusters.Network{Manifest: manifest}, nil
}

// newestVersion is the newest version of Kubernetes that a host of the namespace has.
func newestVersion(cmd *cobra.Command, s *session) (string, error) {
	list := &infrav1.HostList{}
	if err := s.List(cmd.Context(), list, client.InNamespace(s.namespace)); err != nil {
		return "", err
	}
	versions := change.Versions(list.Items)
	if len(versions) == 0 {
		return "", fmt.Errorf("no host in namespace %s reports a version of Kubernetes: set --kubernetes-version; `%s host list -n %s` shows the hosts", s.namespace, cmd.Root().CommandPath(), s.namespace)
	}
	return versions[0], nil
}

// createAll creates objects in their order, and prints each.
func createAll(cmd *cobra.Command, s *session, objects []client.Object, options ...client.CreateOption) error {
	how := ""
	if len(options) > 0 {
		how = " (server dry run)"
	}
	err := change.Create(cmd.Context(), s, objects, func(kind, name string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s created%s\n", kind, name, how)
	}, options...)
	if apierrors.IsAlreadyExists(err) {
		name := objects[len(objects)-1].GetName()
		return fmt.Errorf("there is a Cluster %s in namespace %s already; `%s cluster scale` and `cluster upgrade` change it", name, s.namespace, cmd.Root().CommandPath())
	}
	return err
}

// print writes objects as manifests, or as a List.
func (f *clusterCreateFlags) print(cmd *cobra.Command, objects []client.Object) error {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	var documents []string
	for _, object := range objects {
		fields, err := clusters.Bare(object)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, unstructured.Unstructured{Object: fields})
		document, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		documents = append(documents, string(document))
	}
	if f.output == outputJSON || strings.Contains(f.output, "=") {
		return result{object: list.UnstructuredContent()}.write(cmd.OutOrStdout(), f.output)
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), strings.Join(documents, "---\n"))
	return err
}

// waitFlags say whether a command waits for what it asked for.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (f *waitFlags) bind(command *cobra.Command, until string) {
	command.Flags().BoolVar(&f.wait, "wait", false, "wait until "+until+", and tell what happens meanwhile")
	command.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long to wait")
}
