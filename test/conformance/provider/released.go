package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/templates"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// releasedTemplates is the folder of what a release has for clusterctl.
var releasedTemplates = filepath.Join("..", "..", "..", "templates")

// Rendered is a flavor as clusterctl makes it of its defaults and of variables NAME=VALUE; ""
// is the default one.
func Rendered(flavor string, variables ...string) ([]*unstructured.Unstructured, error) {
	name := "cluster-template.yaml"
	if flavor != "" {
		name = "cluster-template-" + flavor + ".yaml"
	}
	data, err := os.ReadFile(filepath.Join(releasedTemplates, name))
	if err != nil {
		return nil, err
	}
	given := map[string]string{"CLUSTER_NAME": clusterName, "KUBERNETES_VERSION": version, "SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST": "10.88.0.200"}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		given[name] = value
	}
	text, err := judge.Substitute(data, given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return judge.Decode(text)
}

// The ClusterClass that is released: upstream's topology controller accepts it, with nothing
// but the address of the control plane its rollouts need no spare host, and its variables
// are what the objects get.
func releasedClass(t *testing.T, s *Suite) {
	data, err := os.ReadFile(filepath.Join(releasedTemplates, "clusterclass-slipway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const steps = `[{"action":"Reboot"},{"action":"Rebootstrap"},{"action":"Replace"}]`
	f := newTopologyOf(t, s, "slipway", data, 3)
	f.expectPool(`{"strategy":{"maxSurge":1,"maxUnavailable":1},"remediation":{"steps":` + steps + `,"maxInFlight":1}}`)
	f.expectControlPlane(0)
	f.expectPort(6443, 0)
	f.expectKubeProxy("nftables", 0)
	f.expectHealthChecks("cluster.x-k8s.io/control-plane", "topology.cluster.x-k8s.io/deployment-name")
	deployments := &clusterv1.MachineDeploymentList{}
	f.list(deployments)
	if unavailable := deployments.Items[0].Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable; ptr.Deref(unavailable, intstr.FromInt32(0)).IntVal != 1 {
		t.Errorf("the machine deployment waits for a spare host: maxUnavailable %v", unavailable)
	}

	// what somebody wrote into its templates stays beside the variables
	data = bytes.ReplaceAll(data, []byte("  template: {}\n"), []byte("  template: {spec: {resetPolicy: Full}}\n"))
	f = newTopologyOf(t, s, "slipway", data, 1, variable("controlPlaneEndpointPort", "8443"), variable("failureDomainLabel", `"rack"`), variable("workerHostLabels", `{"role":"worker"}`), variable("workerMinCapacity", `{"cpu":"2","memory":"4096Mi"}`), variable("nodeLabels", `["rack","disk"]`),
		variable("workerPoolStrategy", `{"type":"InPlace","maxUnavailable":"30%"}`), variable("workerPoolRemediation", `{"maxInFlight":2}`))
	f.expectPool(`{"hostSelector":{"matchLabels":{"role":"worker"}},"minCapacity":{"cpu":"2","memory":"4Gi"},"nodeLabels":["rack","disk"],"resetPolicy":"Full","strategy":{"type":"InPlace","maxUnavailable":"30%"},"spread":{"key":"rack"},"remediation":{"maxInFlight":2}}`)
	f.expectControlPlane(1)
	f.expectPort(8443, 8443)

	f = newTopologyOf(t, s, "slipway", data, 3, variable("workerPoolSpread", `{"hard":true}`), variable("controlPlaneMaxSurge", `1`),
		variable("endpointType", `"External"`), variable("controlPlaneEndpointPort", "443"), variable("kubeProxyMode", `"iptables"`), variable("kubeProxyConntrackMaxPerCore", `32768`))
	f.expectPool(`{"resetPolicy":"Full","strategy":{"maxSurge":1,"maxUnavailable":1},"spread":{"hard":true},"remediation":{"steps":` + steps + `,"maxInFlight":1}}`)
	f.expectControlPlane(1)
	// The port of a load balancer is not that of the hosts.
	f.expectPort(443, 0)
	f.expectKubeProxy("iptables", 32768)

	if data, err = templates.Local.ReadFile("local/clusterclass.yaml"); err != nil {
		t.Fatal(err)
	}
	f = newTopologyOf(t, s, className, data, 1, variable("controlPlaneEndpointPort", "443"))
	f.expectPort(443, 443)
}

// expectPort compares the port of the control-plane endpoint, and the one that kubeadm has API
// servers listen at, of the first control plane and of those that join; 0 is 6443.
func (f *fixture) expectPort(endpoint, bind int32) {
	f.t.Helper()
	clusters := &infrav1.HostClusterList{}
	f.list(clusters)
	if len(clusters.Items) != 1 || clusters.Items[0].Spec.ControlPlaneEndpoint.Port != endpoint {
		f.t.Errorf("HostClusters %+v, want one with port %d", clusters.Items, endpoint)
	}
	init, join := BindPorts(f.controlPlane().Spec.KubeadmConfigSpec)
	if init != bind || join != bind {
		f.t.Errorf("with port %d API servers listen at %d after kubeadm init and %d after kubeadm join, want %d", endpoint, init, join, bind)
	}
}

// BindPorts are the ports at which kubeadm has API servers listen; 0 is 6443.
func BindPorts(spec bootstrapv1.KubeadmConfigSpec) (init, join int32) {
	if controlPlane := spec.JoinConfiguration.ControlPlane; controlPlane != nil {
		join = controlPlane.LocalAPIEndpoint.BindPort
	}
	return spec.InitConfiguration.LocalAPIEndpoint.BindPort, join
}

// expectPool compares the spec of the one HostMachinePool, without what the provider writes.
func (f *fixture) expectPool(want string) {
	f.t.Helper()
	list := &infrav1.HostMachinePoolList{}
	f.list(list)
	if len(list.Items) != 1 {
		f.t.Fatalf("%d pools", len(list.Items))
	}
	got, err := json.Marshal(list.Items[0].Spec.HostMachinePoolTemplateResourceSpec)
	if err != nil {
		f.t.Fatal(err)
	}
	if string(got) != want {
		f.t.Errorf("the pool is\n%s\nwant\n%s", got, want)
	}
}

func (f *fixture) expectControlPlane(surge int32) {
	f.t.Helper()
	if got := f.controlPlane().Spec.Rollout.Strategy.RollingUpdate.MaxSurge; got == nil || got.IntVal != surge {
		f.t.Errorf("maxSurge of the control plane is %v, want %d", got, surge)
	}
}

// expectKubeProxy wants the configuration that kubeadm is to keep for every kube-proxy.
func (f *fixture) expectKubeProxy(mode string, maxPerCore int) {
	f.t.Helper()
	want := fmt.Sprintf("---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: %s\nconntrack:\n  maxPerCore: %d\n", mode, maxPerCore)
	files := f.controlPlane().Spec.KubeadmConfigSpec.Files
	if len(files) != 2 || files[1].Path != "/etc/slipway/kube-proxy.yaml" || files[1].Content != want {
		f.t.Errorf("files of the control plane: %+v, want the second to be\n%s", files, want)
	}
}

func (f *fixture) controlPlane() controlplanev1.KubeadmControlPlane {
	f.t.Helper()
	list := &controlplanev1.KubeadmControlPlaneList{}
	f.list(list)
	if len(list.Items) != 1 {
		f.t.Fatalf("%d control planes", len(list.Items))
	}
	return list.Items[0]
}

// expectHealthChecks wants one check that selects by each of the labels.
func (f *fixture) expectHealthChecks(labels ...string) {
	f.t.Helper()
	poll.Until(f.t, "core has made the health checks of the class", func() error {
		list := &clusterv1.MachineHealthCheckList{}
		f.list(list)
		for _, label := range labels {
			if !slices.ContainsFunc(list.Items, func(c clusterv1.MachineHealthCheck) bool {
				_, found := c.Spec.Selector.MatchLabels[label]
				return found
			}) {
				return fmt.Errorf("none of %d selects by %s", len(list.Items), label)
			}
		}
		return nil
	})
}
