package workload

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubeletConfig is the kubelet's kubeconfig; kubeadm writes it.
const KubeletConfig = "/etc/kubernetes/kubelet.conf"

// LocalConfig is the controller manager's kubeconfig, of which the server is the API server
// of the same host, wherever the control-plane address is.
const LocalConfig = "/etc/kubernetes/controller-manager.conf"

// AdministratorConfig is the kubeconfig of the cluster's administrator; kubeadm writes it on control planes.
const AdministratorConfig = "/etc/kubernetes/admin.conf"

// requestTimeout bounds every request.
const requestTimeout = 10 * time.Second

// nodePrefix begins the common name of a kubelet's certificate; the name of its
// Node follows.
const nodePrefix = "system:node:"

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.PodList{}, &corev1.ConfigMap{}, &policyv1.Eviction{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	scheme.AddKnownTypes(policyv1.SchemeGroupVersion, &policyv1.Eviction{})
	metav1.AddToGroupVersion(scheme, policyv1.SchemeGroupVersion)
}

// Client reaches the host's own Node.
type Client struct {
	core rest.Interface
	// Name of the Node.
	Name string
}

// Connect makes a client of the kubelet's kubeconfig at path. It sends nothing.
func Connect(path string) (*Client, error) {
	config, err := load(path)
	if err != nil {
		return nil, err
	}
	return connect(path, config)
}

// ConnectTrusting is Connect to a server that one of the given certificate authorities
// vouches for, in PEM; what else the kubeconfig trusts does not count.
func ConnectTrusting(path string, authorities []byte) (*Client, error) {
	config, err := load(path)
	if err != nil {
		return nil, err
	}
	config.Insecure, config.CAFile, config.CAData = false, "", authorities
	return connect(path, config)
}

// ConnectLocal makes a client with the kubelet's credential for the API server of this
// host itself, which the kubeconfig at local names: kubeadm writes it for the controller
// manager. It sends nothing.
func ConnectLocal(path, local string) (*Client, error) {
	config, err := load(path)
	if err != nil {
		return nil, err
	}
	server, err := clientcmd.BuildConfigFromFlags("", local)
	if err != nil {
		return nil, fmt.Errorf("the address of this host's API server: %w", err)
	}
	config.Host, config.Insecure, config.ServerName = server.Host, false, server.ServerName
	config.CAFile, config.CAData = server.CAFile, server.CAData
	return connect(path, config)
}

// Authorities returns the certificate authorities, in PEM, that the kubeconfig at path
// trusts; none when it trusts any server.
func Authorities(path string) ([]byte, error) {
	config, err := load(path)
	switch {
	case err != nil:
		return nil, err
	case config.Insecure:
		return nil, nil
	case len(config.CAData) > 0 || config.CAFile == "":
		return config.CAData, nil
	default:
		return os.ReadFile(config.CAFile)
	}
}

func load(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's credential: %w", err)
	}
	return config, nil
}

func connect(path string, config *rest.Config) (*Client, error) {
	name, err := nodeName(config.TLSClientConfig)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's credential in %s: %w", path, err)
	}
	return New(config, name)
}

// New makes a client for the Node of that name.
func New(config *rest.Config, name string) (*Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.Timeout = requestTimeout
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return &Client{core: client, Name: name}, nil
}

// nodeName reads the name of the Node from the certificate it is bound to.
func nodeName(config rest.TLSClientConfig) (string, error) {
	data := config.CertData
	if len(data) == 0 {
		var err error
		if data, err = os.ReadFile(config.CertFile); err != nil {
			return "", err
		}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", err
		}
		if name, found := strings.CutPrefix(certificate.Subject.CommonName, nodePrefix); found {
			return name, nil
		}
	}
	return "", fmt.Errorf("no certificate for %s<name> in it", nodePrefix)
}

// Get reads the Node.
func (c *Client) Get(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, c.core.Get().Resource("nodes").Name(c.Name).Do(ctx).Into(node)
}

// DeleteNode deletes exactly this Node with the credential of the kubeconfig at path.
func DeleteNode(ctx context.Context, path string, node *corev1.Node) error {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("the administrator's credential: %w", err)
	}
	c, err := New(config, node.Name)
	if err != nil {
		return err
	}
	exactly := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))}
	return c.core.Delete().Resource("nodes").Name(c.Name).Body(exactly).Do(ctx).Error()
}

// SetUnschedulable changes spec.unschedulable of the Node and, in the same write,
// sets the annotation, or removes it when value is empty. The write fails with a
// conflict when the Node has changed since it was read.
func (c *Client) SetUnschedulable(ctx context.Context, node *corev1.Node, unschedulable bool, annotation, value string) error {
	annotations := map[string]any{annotation: nil}
	if value != "" {
		annotations[annotation] = value
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": annotations},
		"spec":     map[string]any{"unschedulable": unschedulable},
	})
	if err != nil {
		return err
	}
	return c.core.Patch(types.MergePatchType).Resource("nodes").Name(c.Name).Body(body).Do(ctx).Error()
}

// SetProviderID gives the Node, as it was read, its providerID. It is refused as invalid
// when the Node has another one, or was made anew since. Others may change what else
// they like in the meantime: a kubelet reports all the time.
func (c *Client) SetProviderID(ctx context.Context, node *corev1.Node, providerID string) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"spec":     map[string]any{"providerID": providerID},
	})
	if err != nil {
		return err
	}
	return c.core.Patch(types.MergePatchType).Resource("nodes").Name(c.Name).Body(body).Do(ctx).Error()
}

// Pods lists the pods that are bound to the Node.
func (c *Client) Pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.core.Get().Resource("pods").Param("fieldSelector", "spec.nodeName="+c.Name).Do(ctx).Into(list)
	return list.Items, err
}

// Evict asks for the eviction of exactly this pod. It is refused with
// TooManyRequests while a disruption budget stands against it.
func (c *Client) Evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	body, err := json.Marshal(eviction)
	if err != nil {
		return err
	}
	return c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		SetHeader("Content-Type", runtime.ContentTypeJSON).MaxRetries(0).Body(body).Do(ctx).Error()
}

// ServerVersion returns the version of the API server that answers, such as v1.36.3.
func (c *Client) ServerVersion(ctx context.Context) (string, error) {
	body, err := c.core.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var info apiversion.Info
	return info.GitVersion, json.Unmarshal(body, &info)
}

// Live returns an error unless the API server says that it lives.
func (c *Client) Live(ctx context.Context) error {
	return c.core.Get().AbsPath("/livez").MaxRetries(0).Do(ctx).Error()
}

// ClusterConfiguration returns the document by which kubeadm makes control planes of the
// cluster. Nodes may read it: kubeadm needs it to upgrade them.
func (c *Client) ClusterConfiguration(ctx context.Context) (string, error) {
	config := &corev1.ConfigMap{}
	err := c.core.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name("kubeadm-config").Do(ctx).Into(config)
	return config.Data["ClusterConfiguration"], err
}
