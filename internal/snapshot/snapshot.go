package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
)

// Snapshot has the objects of the kinds that were read. The zero value is an empty management
// cluster. Objects may be those of a cache: they are only read.
type Snapshot struct {
	// Unread is what the user may not read.
	Unread []Unread

	Clusters             []clusterv1.Cluster
	Machines             []clusterv1.Machine
	MachinePools         []clusterv1.MachinePool
	MachineDeployments   []clusterv1.MachineDeployment
	MachineHealthChecks  []clusterv1.MachineHealthCheck
	HostClusters         []infrav1.HostCluster
	HostMachines         []infrav1.HostMachine
	HostMachinePools     []infrav1.HostMachinePool
	Hosts                []infrav1.Host
	Events               []corev1.Event
	LifecycleRuns        []lifecyclev1.LifecycleRun
	LifecyclePolicies    []lifecyclev1.LifecyclePolicy
	ExtensionConfigs     []runtimev1.ExtensionConfig
	HostExtensionConfigs []runtimev1alpha1.HostExtensionConfig
	AgentReleases        []infrav1.AgentRelease
	Requests             []certificatesv1.CertificateSigningRequest
	Tokens               []corev1.Secret
	Providers            []appsv1.Deployment
}

// Unread is a kind that the user may not list.
type Unread struct {
	Kind string `json:"kind"`
	// Message says which right is missing.
	Message string `json:"message"`
	err     error
}

// Err is the refusal.
func (u Unread) Err() error { return u.err }

// Read reads the kinds in a namespace, in all when it is empty. Kinds that the user may not list
// are in Snapshot.Unread; when none may be read, it is an error. Kinds that are not installed
// have no objects.
func Read(ctx context.Context, c client.Reader, namespace string, kinds ...Kind) (*Snapshot, error) {
	s := &Snapshot{}
	readable, err := s.add(ctx, c, namespace, kinds)
	if err == nil && !readable {
		err = s.Refused(kinds...)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ReadAll is Read for who needs all kinds: what the user may not list is an error, which has all
// of it.
func ReadAll(ctx context.Context, c client.Reader, namespace string, kinds ...Kind) (*Snapshot, error) {
	s, err := Read(ctx, c, namespace, kinds...)
	if err == nil {
		err = s.Refused(kinds...)
	}
	return s, err
}

// Add reads kinds as Read does. That none may be listed is no error.
func (s *Snapshot) Add(ctx context.Context, c client.Reader, namespace string, kinds ...Kind) error {
	_, err := s.add(ctx, c, namespace, kinds)
	return err
}

func (s *Snapshot) add(ctx context.Context, c client.Reader, namespace string, kinds []Kind) (readable bool, err error) {
	for _, kind := range kinds {
		err := kind.read(ctx, c, namespace, s)
		switch {
		case err == nil:
			readable = true
		case kind.optional && meta.IsNoMatchError(err):
		case apierrors.IsForbidden(err):
			s.Unread = append(s.Unread, Unread{Kind: kind.name, Message: err.Error(), err: err})
		default:
			return false, fmt.Errorf("list objects of kind %s: %w", kind.name, err)
		}
	}
	return readable, nil
}

// Refused has the refusal of each of the kinds that may not be listed; nil when there is none.
func (s *Snapshot) Refused(kinds ...Kind) error {
	var all []error
	for _, u := range s.Unread {
		if slices.ContainsFunc(kinds, func(k Kind) bool { return k.name == u.Kind }) {
			all = append(all, u.err)
		}
	}
	return errors.Join(all...)
}

// Cluster returns a Cluster; nil when there is none, or none that may be read.
func (s *Snapshot) Cluster(namespace, name string) *clusterv1.Cluster {
	return find(s.Clusters, namespace, name)
}

// Host returns a Host; nil when there is none, or none that may be read.
func (s *Snapshot) Host(namespace, name string) *infrav1.Host { return find(s.Hosts, namespace, name) }

// HostMachine returns one by its name, or nil.
func (s *Snapshot) HostMachine(namespace, name string) *infrav1.HostMachine {
	return find(s.HostMachines, namespace, name)
}

// MachinesOnHosts returns the Machines whose infrastructure are HostMachines, by that HostMachine.
func (s *Snapshot) MachinesOnHosts() map[client.ObjectKey]*clusterv1.Machine {
	machines := make(map[client.ObjectKey]*clusterv1.Machine, len(s.Machines))
	for i := range s.Machines {
		m := &s.Machines[i]
		if ref := &m.Spec.InfrastructureRef; ref.Kind == "HostMachine" && ref.APIGroup == infrav1.GroupVersion.Group {
			machines[client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}] = m
		}
	}
	return machines
}

func find[T any, P interface {
	*T
	client.Object
}](items []T, namespace, name string) P {
	for i := range items {
		if o := P(&items[i]); o.GetName() == name && o.GetNamespace() == namespace {
			return o
		}
	}
	return nil
}

// Kinds that can be read. Those of slipway-lifecycle and of Cluster API's runtime extensions are
// not installed everywhere, and the plane of `slipway up` serves no Deployments.
var (
	Clusters             = namespaced("Cluster", func(s *Snapshot, l *clusterv1.ClusterList) { s.Clusters = l.Items })
	Machines             = namespaced("Machine", func(s *Snapshot, l *clusterv1.MachineList) { s.Machines = l.Items })
	MachinePools         = namespaced("MachinePool", func(s *Snapshot, l *clusterv1.MachinePoolList) { s.MachinePools = l.Items })
	MachineDeployments   = namespaced("MachineDeployment", func(s *Snapshot, l *clusterv1.MachineDeploymentList) { s.MachineDeployments = l.Items })
	MachineHealthChecks  = namespaced("MachineHealthCheck", func(s *Snapshot, l *clusterv1.MachineHealthCheckList) { s.MachineHealthChecks = l.Items })
	HostClusters         = namespaced("HostCluster", func(s *Snapshot, l *infrav1.HostClusterList) { s.HostClusters = l.Items })
	HostMachines         = namespaced("HostMachine", func(s *Snapshot, l *infrav1.HostMachineList) { s.HostMachines = l.Items })
	HostMachinePools     = namespaced("HostMachinePool", func(s *Snapshot, l *infrav1.HostMachinePoolList) { s.HostMachinePools = l.Items })
	Hosts                = namespaced("Host", func(s *Snapshot, l *infrav1.HostList) { s.Hosts = l.Items })
	Events               = namespaced("Event", func(s *Snapshot, l *corev1.EventList) { s.Events = l.Items })
	LifecycleRuns        = namespaced("LifecycleRun", func(s *Snapshot, l *lifecyclev1.LifecycleRunList) { s.LifecycleRuns = l.Items }).addition()
	LifecyclePolicies    = namespaced("LifecyclePolicy", func(s *Snapshot, l *lifecyclev1.LifecyclePolicyList) { s.LifecyclePolicies = l.Items }).addition()
	ExtensionConfigs     = cluster("ExtensionConfig", func(s *Snapshot, l *runtimev1.ExtensionConfigList) { s.ExtensionConfigs = l.Items }).addition()
	HostExtensionConfigs = cluster("HostExtensionConfig", func(s *Snapshot, l *runtimev1alpha1.HostExtensionConfigList) { s.HostExtensionConfigs = l.Items }).addition()
	AgentReleases        = cluster("AgentRelease", func(s *Snapshot, l *infrav1.AgentReleaseList) { s.AgentReleases = l.Items }).addition()
	// Requests are the CertificateSigningRequests of agents.
	Requests = cluster("CertificateSigningRequest", func(s *Snapshot, l *certificatesv1.CertificateSigningRequestList) { s.Requests = l.Items },
		client.HasLabels{infrav1.HostLabel})
	// Tokens are the Secrets of bootstrap tokens.
	Tokens = cluster("Secret", func(s *Snapshot, l *corev1.SecretList) { s.Tokens = l.Items },
		client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"type": string(corev1.SecretTypeBootstrapToken)})
	// Providers are the Deployments of Cluster API's providers.
	Providers = cluster("Deployment", func(s *Snapshot, l *appsv1.DeploymentList) { s.Providers = l.Items },
		client.HasLabels{clusterv1.ProviderNameLabel}).addition()
)

// Kind is a kind of objects, and where in a Snapshot they are kept.
type Kind struct {
	name string
	// optional is true for what is not installed everywhere.
	optional bool
	read     func(ctx context.Context, c client.Reader, namespace string, s *Snapshot) error
}

// Is says whether it is the kind of that name.
func (k Kind) Is(name string) bool { return k.name == name }

// addition returns the kind as one that is not installed everywhere.
func (k Kind) addition() Kind {
	k.optional = true
	return k
}

type listOf[L any] interface {
	*L
	client.ObjectList
}

// namespaced returns a kind of which only the namespace of the snapshot is read.
func namespaced[L any, P listOf[L]](name string, keep func(*Snapshot, P)) Kind {
	return Kind{name: name, read: func(ctx context.Context, c client.Reader, namespace string, s *Snapshot) error {
		return list(ctx, c, s, keep, client.InNamespace(namespace))
	}}
}

// cluster returns a kind that is read whatever the namespace is.
func cluster[L any, P listOf[L]](name string, keep func(*Snapshot, P), opts ...client.ListOption) Kind {
	return Kind{name: name, read: func(ctx context.Context, c client.Reader, _ string, s *Snapshot) error {
		return list(ctx, c, s, keep, opts...)
	}}
}

func list[L any, P listOf[L]](ctx context.Context, c client.Reader, s *Snapshot, keep func(*Snapshot, P), opts ...client.ListOption) error {
	found := P(new(L))
	if err := c.List(ctx, found, opts...); err != nil {
		return err
	}
	keep(s, found)
	return nil
}

// Scope narrows what is read and shown. The zero value is everything.
type Scope struct {
	// Namespace is the only one that is looked at; empty for all.
	Namespace string
	// Selector holds for clusters and hosts that are shown; nil for all.
	Selector labels.Selector
}

// Narrow says whether it leaves anything out.
func (s Scope) Narrow() bool { return s.Namespace != "" || s.Selector != nil && !s.Selector.Empty() }

// Shows says whether an object has the labels that are asked for.
func (s Scope) Shows(object client.Object) bool {
	return s.Selector == nil || s.Selector.Matches(labels.Set(object.GetLabels()))
}

// ShellWord quotes for a shell what a cluster or a machine told, for the commands that are shown to
// administrators. It is one line, and no option.
func ShellWord(word string) string {
	if strings.HasPrefix(word, "-") {
		word = string(utf8.RuneError) + word
	}
	if !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:@/+=[]", r)
	}) {
		return word
	}
	word = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, word)
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
