package workload

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Parse returns the current context of a kubeconfig. Whoever may write a Secret wrote
// it, so it may neither run a program nor read a file of this process, and what it says is
// sent to the server that it verifies alone: with InsecureSkipTLSVerify or a proxy anybody
// in between is administrator of the cluster.
func Parse(data []byte) (*rest.Config, error) {
	kubeconfig, err := clientcmd.Load(data)
	if err != nil {
		// The text of the parser may quote what is a secret.
		return nil, errors.New("it is no kubeconfig")
	}
	for name, user := range kubeconfig.AuthInfos {
		if setting := outsideOfUser(user); setting != "" {
			return nil, fmt.Errorf("user %q has %s, which is not allowed: credentials must be in the kubeconfig itself", name, setting)
		}
	}
	for name, cluster := range kubeconfig.Clusters {
		switch {
		case cluster.CertificateAuthority != "":
			return nil, fmt.Errorf("cluster %q has certificate-authority, which is not allowed: use certificate-authority-data", name)
		case cluster.InsecureSkipTLSVerify:
			return nil, fmt.Errorf("cluster %q has insecure-skip-tls-verify, which is not allowed: use certificate-authority-data", name)
		case cluster.ProxyURL != "":
			return nil, fmt.Errorf("cluster %q has proxy-url, which is not allowed: its server must be reached directly", name)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(config.Host, "https://") {
		return nil, errors.New("its server has no address that begins with https://")
	}
	return config, nil
}

// outsideOfUser names the setting that takes credentials from outside of the
// kubeconfig; "" when there is none.
func outsideOfUser(user *clientcmdapi.AuthInfo) string {
	switch {
	case user.Exec != nil:
		return "exec"
	case user.AuthProvider != nil:
		return "auth-provider"
	case user.TokenFile != "":
		return "tokenFile"
	case user.ClientCertificate != "":
		return "client-certificate"
	case user.ClientKey != "":
		return "client-key"
	}
	return ""
}
