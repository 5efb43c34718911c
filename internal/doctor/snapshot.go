package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/status"
)

// Snapshot is what checks look at. The zero value is an empty management cluster.
type Snapshot struct {
	// Now is when it was taken.
	Now time.Time
	// Scope that it was taken of.
	Scope status.Scope
	// Plane of this machine; nil for any other management cluster.
	Plane *status.Plane
	// Unread is what the user may not read.
	Unread []Unread

	Clusters             []clusterv1.Cluster
	Machines             []clusterv1.Machine
	HostClusters         []infrav1.HostCluster
	HostMachines         []infrav1.HostMachine
	HostMachinePools     []infrav1.HostMachinePool
	Hosts                []infrav1.Host
	LifecycleRuns        []lifecyclev1.LifecycleRun
	LifecyclePolicies    []lifecyclev1.LifecyclePolicy
	ExtensionConfigs     []runtimev1.ExtensionConfig
	HostExtensionConfigs []runtimev1alpha1.HostExtensionConfig
	AgentReleases        []infrav1.AgentRelease
	// Requests are the CertificateSigningRequests of agents.
	Requests []certificatesv1.CertificateSigningRequest
	// Tokens are the Secrets of bootstrap tokens.
	Tokens []corev1.Secret
	// Providers are the Deployments of Cluster API's providers.
	Providers []appsv1.Deployment
}

// source is one kind that is read.
type source struct {
	kind string
	list client.ObjectList
	opts []client.ListOption
	// optional is true for what is not installed everywhere.
	optional bool
	keep     func(*Snapshot)
}

func sources(namespace string) []source {
	var (
		in           = []client.ListOption{client.InNamespace(namespace)}
		clusters     clusterv1.ClusterList
		machines     clusterv1.MachineList
		hostClusters infrav1.HostClusterList
		hostMachines infrav1.HostMachineList
		hostPools    infrav1.HostMachinePoolList
		hosts        infrav1.HostList
		runs         lifecyclev1.LifecycleRunList
		policies     lifecyclev1.LifecyclePolicyList
		extensions   runtimev1.ExtensionConfigList
		hostExt      runtimev1alpha1.HostExtensionConfigList
		agents       infrav1.AgentReleaseList
		requests     certificatesv1.CertificateSigningRequestList
		tokens       corev1.SecretList
		providers    appsv1.DeploymentList
	)
	ofTokens := []client.ListOption{client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"type": string(corev1.SecretTypeBootstrapToken)}}
	return []source{
		{"Cluster", &clusters, in, false, func(s *Snapshot) { s.Clusters = clusters.Items }},
		{"Machine", &machines, in, false, func(s *Snapshot) { s.Machines = machines.Items }},
		{"HostCluster", &hostClusters, in, false, func(s *Snapshot) { s.HostClusters = hostClusters.Items }},
		{"HostMachine", &hostMachines, in, false, func(s *Snapshot) { s.HostMachines = hostMachines.Items }},
		{"HostMachinePool", &hostPools, in, false, func(s *Snapshot) { s.HostMachinePools = hostPools.Items }},
		{"Host", &hosts, in, false, func(s *Snapshot) { s.Hosts = hosts.Items }},
		{"LifecycleRun", &runs, in, true, func(s *Snapshot) { s.LifecycleRuns = runs.Items }},
		{"LifecyclePolicy", &policies, in, true, func(s *Snapshot) { s.LifecyclePolicies = policies.Items }},
		{"ExtensionConfig", &extensions, nil, true, func(s *Snapshot) { s.ExtensionConfigs = extensions.Items }},
		{"HostExtensionConfig", &hostExt, nil, true, func(s *Snapshot) { s.HostExtensionConfigs = hostExt.Items }},
		{"AgentRelease", &agents, nil, true, func(s *Snapshot) { s.AgentReleases = agents.Items }},
		{"CertificateSigningRequest", &requests, []client.ListOption{client.HasLabels{infrav1.HostLabel}}, false, func(s *Snapshot) { s.Requests = requests.Items }},
		{"Secret", &tokens, ofTokens, false, func(s *Snapshot) { s.Tokens = tokens.Items }},
		// the plane of `slipway up` serves none
		{"Deployment", &providers, []client.ListOption{client.HasLabels{clusterv1.ProviderNameLabel}}, true, func(s *Snapshot) { s.Providers = providers.Items }},
	}
}

// Read takes a snapshot with the rights of the user behind c. What may not be read is in
// Snapshot.Unread; it is an error only when that is everything.
func Read(ctx context.Context, c client.Reader, scope status.Scope, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Now: now, Scope: scope}
	var (
		refused  []error
		readable bool
	)
	for _, from := range sources(scope.Namespace) {
		err := c.List(ctx, from.list, from.opts...)
		switch {
		case err == nil:
			readable = true
			from.keep(s)
		case from.optional && meta.IsNoMatchError(err):
		case apierrors.IsForbidden(err):
			refused = append(refused, err)
			s.Unread = append(s.Unread, Unread{Kind: from.kind, Message: err.Error()})
		default:
			return nil, fmt.Errorf("list objects of kind %s: %w", from.kind, err)
		}
	}
	if !readable {
		return nil, errors.Join(refused...)
	}
	return s, nil
}

// knows says whether the objects of a kind were read.
func (s *Snapshot) knows(kind string) bool {
	return !slices.ContainsFunc(s.Unread, func(u Unread) bool { return u.Kind == kind })
}

// cluster returns a Cluster; nil when there is none, or none that may be read.
func (s *Snapshot) cluster(namespace, name string) *clusterv1.Cluster {
	for i := range s.Clusters {
		if s.Clusters[i].Namespace == namespace && s.Clusters[i].Name == name {
			return &s.Clusters[i]
		}
	}
	return nil
}

// host returns a Host; nil when there is none, or none that may be read.
func (s *Snapshot) host(namespace, name string) *infrav1.Host {
	for i := range s.Hosts {
		if s.Hosts[i].Namespace == namespace && s.Hosts[i].Name == name {
			return &s.Hosts[i]
		}
	}
	return nil
}

// shows says whether a finding is in scope: the labels are those of the Host, and of an object
// of a Cluster those of the Cluster. All other findings are shown: an ExtensionConfig, an
// AgentRelease or a token has no labels of theirs, and may hold any of them back.
func (s *Snapshot) shows(f Finding) bool {
	if s.Scope.Selector == nil || s.Scope.Selector.Empty() {
		return true
	}
	if f.Object.Kind == "Host" {
		if h := s.host(f.Object.Namespace, f.Object.Name); h != nil {
			return s.Scope.Selector.Matches(labels.Set(h.Labels))
		}
	}
	if f.Cluster == "" {
		return true
	}
	c := s.cluster(f.Object.Namespace, f.Cluster)
	return c != nil && s.Scope.Selector.Matches(labels.Set(c.Labels))
}
