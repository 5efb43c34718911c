package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/test/simagent"
)

const (
	namespace     = "default"
	clusterName   = "scale"
	bootstrapData = "bootstrap"
	version       = "v1.36.3"
)

// world is everything around the plane: the workload cluster and the hosts.
type world struct {
	settings
	management *rest.Config
	client     client.WithWatch
	workload   *envtest.Environment
	fleet      *simagent.Fleet
	view       *view
}

func newWorld(ctx context.Context, s settings) (*world, error) {
	w := &world{settings: s, view: newView()}
	var err error
	if w.management, w.client, err = s.connect(); err != nil {
		return nil, err
	}
	if err := os.Setenv("KUBEBUILDER_ASSETS", filepath.Join(s.bin, "envtest")); err != nil {
		return nil, err
	}
	w.workload = &envtest.Environment{}
	// There is no default route to guess an address from.
	w.workload.ControlPlane.GetAPIServer().Configure().
		Set("advertise-address", "127.0.0.1").Set("endpoint-reconciler-type", "none").
		// An open watch would hold its stop for a minute.
		Set("shutdown-send-retry-after", "true")
	workload, err := w.workload.Start()
	if err != nil {
		return nil, fmt.Errorf("start the workload cluster: %w", err)
	}
	workload.QPS = -1
	nodes, err := kubernetes.NewForConfig(workload)
	if err != nil {
		return nil, err
	}
	w.fleet, err = simagent.New(simagent.Options{
		Config: w.management, Namespace: namespace, Nodes: simagent.Kubelets{Client: nodes}, Version: version, Bootstrap: s.bootstrap,
	})
	if err != nil {
		return nil, err
	}
	if err := w.createCluster(ctx, workload); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) stop() error { return w.workload.Stop() }

// createCluster makes a Cluster whose control plane is the workload cluster: one
// Machine on one simulated host stands for it.
func (w *world) createCluster(ctx context.Context, workload *rest.Config) error {
	server, err := url.Parse(workload.Host)
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(server.Port(), 10, 32)
	if err != nil {
		return err
	}
	kubeconfig, err := kubeconfigOf(workload)
	if err != nil {
		return err
	}
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName}
	infrastructure := clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: clusterName}
	for _, o := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret.Name(clusterName, secret.Kubeconfig), Labels: labels},
			Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{secret.KubeconfigDataName: kubeconfig},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: bootstrapData, Labels: labels},
			Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"format": []byte("cloud-config"), "value": []byte("#cloud-config\n")},
		},
		&infrav1.HostCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
			Spec: infrav1.HostClusterSpec{
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: server.Hostname(), Port: int32(port)},
				Endpoint:             infrav1.EndpointSpec{Type: infrav1.EndpointExternal},
			},
		},
		&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
			Spec:       clusterv1.ClusterSpec{InfrastructureRef: infrastructure},
		},
		&infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "control-plane", Labels: labels}},
		&clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "control-plane", Labels: map[string]string{
				clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineControlPlaneLabel: "",
			}},
			Spec: clusterv1.MachineSpec{
				ClusterName: clusterName, Version: version, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(bootstrapData)},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: "control-plane"},
			},
		},
	} {
		if err := w.client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

func kubeconfigOf(c *rest.Config) ([]byte, error) {
	const name = "workload"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// createPool makes a MachinePool and its HostMachinePool.
func (w *world) createPool(ctx context.Context, name string, replicas int) error {
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName}
	pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	if err := w.client.Create(ctx, pool); err != nil {
		return err
	}
	return w.client.Create(ctx, &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: clusterName, Replicas: ptr.To(int32(replicas)),
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: clusterName, Version: version, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(bootstrapData)},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachinePool", Name: name},
			}},
		},
	})
}
