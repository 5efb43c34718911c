package enroll

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Where the agent looks for its files.
const (
	AgentConfigPath         = "/etc/slipway/agent.yaml"
	BootstrapKubeconfigPath = "/etc/slipway/bootstrap-kubeconfig"
)

// AgentConfig is the agent's configuration for a host.
func AgentConfig(namespace, host string) []byte {
	return fmt.Appendf(nil, `apiVersion: agent.slipway.dev/v1alpha1
kind: AgentConfiguration
namespace: %s
hostName: %s
`, namespace, host)
}

// BootstrapKubeconfig is the kubeconfig an agent enrolls with.
func BootstrapKubeconfig(server string, ca []byte, token string) ([]byte, error) {
	const name = "bootstrap"
	kc := clientcmdapi.NewConfig()
	kc.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kc.CurrentContext = name
	return clientcmd.Write(*kc)
}
