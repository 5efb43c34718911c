package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
	"github.com/slipway-dev/slipway/test/simagent"
)

const (
	namespace, clusterName = "production", "edge"
	version                = "v1.36.3"
	operator               = "ann"
	// patience bounds the start of a browser.
	patience = 4 * time.Minute
)

// kubeletLog is what a kubelet writes, more or less.
const kubeletLog = `I1129 09:21:04.120316     812 server.go:530] "Kubelet version" kubeletVersion="` + version + `"
I1129 09:21:04.318452     812 server.go:1292] "Started kubelet"
W1129 09:21:05.904117     812 reflector.go:569] failed to list *v1.Node: nodes "host-1" is forbidden: not registered yet
I1129 09:21:07.233900     812 kubelet_node_status.go:75] "Attempting to register node" node="host-1"
I1129 09:21:07.251044     812 kubelet_node_status.go:78] "Successfully registered node" node="host-1"
I1129 09:21:17.460718     812 setters.go:602] "Node became ready" node="host-1"
`

// world is a management cluster that is its own workload cluster, too.
type world struct {
	*judge.Plane
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lifecyclev1.AddToScheme(scheme), runtimev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kit := judge.NewKit()
	slipway, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta2})
	if err != nil {
		t.Fatal(err)
	}
	lifecycle, hooks := engine(t, kit)
	core := judge.Core
	core.Flags = append(slices.Clone(core.Flags), "--feature-gates=RuntimeSDK=true")
	w := &world{t: t}
	w.Plane, err = judge.Start(t.Context(), judge.Options{Kit: kit, Dir: t.TempDir(), Scheme: scheme, Subjects: []judge.Subject{lifecycle, slipway, core}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Failures(), w.Stop()); err != nil {
			t.Error(err)
		}
	})
	extension := hooktest.Config("slipway-lifecycle", hooks, w.CA())
	extension.ResourceVersion, extension.Generation = "", 0
	w.create(extension, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.eventually("core knows the hooks of slipway-lifecycle", func() error {
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(extension), extension)
		if err == nil && !conditions.IsTrue(extension, runtimev1.ExtensionConfigDiscoveredCondition) {
			return errors.New("they are not discovered")
		}
		return err
	})
	w.employ()
	return w
}

// engine is the released engine, and where its hooks are. The kinds of a kubeadm control
// plane come with it: the objects are there, and nobody acts on them.
func engine(t *testing.T, kit *judge.Kit) (subject judge.Subject, hooks string) {
	t.Helper()
	objects, err := kit.Render(t.Context(), "github.com/slipway-dev/slipway", "config/lifecycle/default")
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.Clone(objects)
	kubeadm, err := kit.Render(t.Context(), "sigs.k8s.io/cluster-api", "controlplane/kubeadm/config/default")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range kubeadm {
		if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "ClusterRole" {
			objects = append(objects, o)
		}
	}
	free, err := shared.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	return judge.Subject{
		Name: "slipway-lifecycle", Package: "github.com/slipway-dev/slipway/cmd/slipway-lifecycle", CertDirFlag: "cert-dir",
		Namespace: "slipway-lifecycle-system", ServiceAccount: "slipway-lifecycle", Objects: objects,
		Flags: []string{
			fmt.Sprintf("--extension-address=127.0.0.1:%d", free[0]), fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", free[1]), "--insecure-hooks", "--drain-delay=0s",
		},
	}, fmt.Sprintf("https://127.0.0.1:%d", free[0])
}

// employ gives the operator the rights that docs/console.md names, and those of a decider.
func (w *world) employ() {
	w.t.Helper()
	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "console"}}
	for group, kinds := range map[string][]string{
		infrav1.GroupVersion.Group:     {"*"},
		clusterv1.GroupVersion.Group:   {"*"},
		lifecyclev1.GroupVersion.Group: {"*"},
		corev1.GroupName:               {"events"},
		coordinationv1.GroupName:       {"leases"},
	} {
		reader.Rules = append(reader.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: kinds, Verbs: []string{"get", "list", "watch"}})
	}
	// What the actions need.
	for verb, kinds := range map[string][]string{"patch": {"hosts", "hostmachines"}, "create": {"hostlogrequests"}, "delete": {"hostlogrequests"}} {
		reader.Rules = append(reader.Rules, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: kinds, Verbs: []string{verb}})
	}
	w.create(reader)
	for _, role := range []string{reader.Name, "slipway-lifecycle-decider"} {
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operator}},
		})
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Client.Create(w.t.Context(), object); err != nil {
			w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// eventually waits for what the managers do.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	poll.Until(w.t, what, func() error {
		if err := w.Failures(); err != nil {
			w.t.Fatal(err)
		}
		return check()
	})
}

// host runs the agent of a host in a rack until it is cut, or to the end of the test.
func (w *world) host(name, rack string) (cut func()) {
	w.t.Helper()
	h := simagent.Enrolled(namespace, name)
	h.Spec.FailureDomain = rack
	w.create(h)
	w.eventually("the agent of "+name+" has its rights", func() error {
		return w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: host.RoleName(name)}, &rbacv1.RoleBinding{})
	})
	nodes, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	fleet, err := simagent.New(simagent.Options{
		Config: w.Config, Namespace: namespace, Nodes: simagent.Kubelets{Client: nodes}, Version: version,
		// A host that is cut is missed after this time; one that is late for it is only
		// told to be not connected for a moment.
		HeartbeatInterval: 2 * time.Second, LeaseDuration: 8 * time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	if err := fleet.Start(ctx, name); err != nil {
		w.t.Fatal(err)
	}
	cut = sync.OnceFunc(func() { cancel(); fleet.Wait() })
	w.t.Cleanup(cut)
	return cut
}

// answerLog answers the request for a log that there is, as an agent does: those of this world have none.
func (w *world) answerLog(text string) {
	w.t.Helper()
	w.eventually("there is a granted request for a log", func() error {
		list := &infrav1.HostLogRequestList{}
		if err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.GrantedTime == nil {
			return fmt.Errorf("%d requests", len(list.Items))
		}
		list.Items[0].Status.FirstLine, list.Items[0].Status.Text = 1, text
		return w.Client.Status().Update(w.t.Context(), &list.Items[0])
	})
}

// class is a ClusterClass without workers, whose control plane is at HOST and PORT, and a
// policy for what is made of it.
const class = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: bare-metal, namespace: production}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.slipway.dev/v1beta2, kind: HostClusterTemplate, name: bare-metal}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: bare-metal}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.slipway.dev/v1beta2, kind: HostMachineTemplate, name: bare-metal}}
---
apiVersion: infrastructure.slipway.dev/v1beta2
kind: HostClusterTemplate
metadata: {name: bare-metal, namespace: production}
spec: {template: {spec: {controlPlaneEndpoint: {host: HOST, port: PORT}, endpoint: {type: External}}}}
---
apiVersion: infrastructure.slipway.dev/v1beta2
kind: HostMachineTemplate
metadata: {name: bare-metal, namespace: production}
spec: {template: {}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: bare-metal, namespace: production}
spec: {template: {spec: {kubeadmConfigSpec: {format: cloud-config}}}}
---
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: change-board, namespace: production}
spec:
  hooks:
    - hook: BeforeClusterCreate
      steps: [{name: board, approval: {message: "Is the change request signed?"}}]
`

// order has core create a Cluster, which a policy holds back.
func (w *world) order() {
	w.t.Helper()
	address, err := url.Parse(w.Config.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	hostName, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	objects, err := judge.Decode([]byte(strings.NewReplacer("HOST", hostName, "PORT", port).Replace(class)))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, object := range objects {
		w.create(object)
	}
	w.eventually("the policy is taken", func() error {
		policy := &lifecyclev1.LifecyclePolicy{}
		if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "change-board"}, policy); err != nil {
			return err
		}
		if len(policy.Status.Conditions) == 0 {
			return errors.New("it is not reconciled yet")
		}
		return nil
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	cluster.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "bare-metal"}, Version: version, ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(int32(1))},
	}
	w.create(cluster)
	data, err := judge.Kubeconfig(w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.create(kubeconfig.GenerateSecret(cluster, data))
}

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

// template is what the machines of a group are made by.
func (w *world) template(kind, name string) clusterv1.MachineSpec {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: meta("bootstrap-"+name, map[string]string{clusterv1.ClusterNameLabel: clusterName}), Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	})
	return clusterv1.MachineSpec{
		ClusterName: clusterName, Version: version, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + name)},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name},
	}
}

// controlPlane makes the machine that a control-plane provider would make.
func (w *world) controlPlane(name string) {
	w.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineControlPlaneLabel: ""}
	w.create(
		&infrav1.HostMachine{ObjectMeta: meta(name, labels)},
		&clusterv1.Machine{ObjectMeta: meta(name, labels), Spec: w.template("HostMachine", name)},
	)
}

// initialized says what a control-plane provider would say of that machine.
func (w *world) initialized() {
	w.t.Helper()
	list := &controlplanev1.KubeadmControlPlaneList{}
	if err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		w.t.Fatalf("%d control planes: %v", len(list.Items), err)
	}
	before := list.Items[0].DeepCopy()
	status := &list.Items[0].Status
	status.Initialization.ControlPlaneInitialized = ptr.To(true)
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpToDateReplicas = ptr.To(int32(1)), ptr.To(int32(1)), ptr.To(int32(1)), ptr.To(int32(1))
	if err := w.Client.Status().Patch(w.t.Context(), &list.Items[0], client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// pool makes a pool of workers.
func (w *world) pool(name string, replicas int32) {
	w.t.Helper()
	w.create(
		&infrav1.HostMachinePool{ObjectMeta: meta(name, nil)},
		&clusterv1.MachinePool{ObjectMeta: meta(name, nil), Spec: clusterv1.MachinePoolSpec{
			ClusterName: clusterName, Replicas: ptr.To(replicas), Template: clusterv1.MachineTemplateSpec{Spec: w.template("HostMachinePool", name)},
		}},
	)
}

// made says whether core has made the infrastructure of the Cluster.
func (w *world) made() bool {
	w.t.Helper()
	list := &infrav1.HostClusterList{}
	if err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	return len(list.Items) > 0
}

// theRun is that of the policy.
func (w *world) theRun() *lifecyclev1.LifecycleRun {
	w.t.Helper()
	list := &lifecyclev1.LifecycleRunList{}
	if err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	if len(list.Items) != 1 {
		w.t.Fatalf("%d runs", len(list.Items))
	}
	return &list.Items[0]
}
