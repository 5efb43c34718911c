package workload_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var management, other *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.MainWithWorkload(m, func(e, workload *testenv.Env) { management, other = e, workload }))
}

func newCluster(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	testenv.Skip(t)
	return management.NewWorkloadCluster(t, management.Namespace(t), other)
}

// changeKubeconfig changes the kubeconfig Secret of a Cluster.
func changeKubeconfig(t *testing.T, cluster *clusterv1.Cluster, change func(*clientcmdapi.Config)) {
	t.Helper()
	s := kubeconfigOf(t, cluster)
	config, err := clientcmd.Load(other.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	if s.Data[secret.KubeconfigDataName], err = clientcmd.Write(*config); err != nil {
		t.Fatal(err)
	}
	if err := management.Client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
}

func kubeconfigOf(t *testing.T, cluster *clusterv1.Cluster) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := management.Client.Get(context.Background(), key, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClientsReachTheWorkloadClusterAndAreKept(t *testing.T) {
	cluster := newCluster(t)
	clients := workload.New(management.Client, "slipway-lifecycle")
	first, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	name := "made-through-" + cluster.Namespace
	if err := first.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace is not in the workload cluster: %v", err)
	}
	if err := management.Client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); err == nil {
		t.Error("the namespace is in the management cluster")
	}
	second, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil || second != first {
		t.Errorf("asked again: %p, %v; want the same client %p", second, err, first)
	}
}

func TestAChangedKubeconfigMakesANewClient(t *testing.T) {
	cluster := newCluster(t)
	clients := workload.New(management.Client, "slipway-lifecycle")
	first, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	changeKubeconfig(t, cluster, func(c *clientcmdapi.Config) {
		for _, user := range c.AuthInfos {
			user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, "of-nobody"
		}
	})
	second, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	if first == second || second.Config.BearerToken != "of-nobody" {
		t.Errorf("the client still has the old credentials")
	}
}

func TestAMissingKubeconfigIsNamedWithItsRemedy(t *testing.T) {
	cluster := newCluster(t)
	clients := workload.New(management.Client, "slipway-lifecycle")
	if _, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster)); err != nil {
		t.Fatal(err)
	}
	if err := management.Client.Delete(t.Context(), kubeconfigOf(t, cluster)); err != nil {
		t.Fatal(err)
	}
	_, err := clients.For(t.Context(), client.ObjectKeyFromObject(cluster))
	wantUnavailable(t, err, "there is no Secret c1-kubeconfig", "skip the step")
}

func TestAnUnreachableClusterIsNamedWithItsRemedy(t *testing.T) {
	cluster := newCluster(t)
	changeKubeconfig(t, cluster, func(c *clientcmdapi.Config) {
		for _, server := range c.Clusters {
			server.Server = "https://127.0.0.1:1"
		}
	})
	access, err := workload.New(management.Client, "slipway-lifecycle").For(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	err = access.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{})
	wantUnavailable(t, err, "127.0.0.1:1 does not answer", "skip the step")
	if !step.IsUnreached(err) || step.IsUnreached(step.Terminal(err, "retry")) {
		t.Errorf("it is taken for a failure of the step: %v", err)
	}
}

func TestAKubeconfigMustNotReachOutsideOfItself(t *testing.T) {
	for name, change := range map[string]func(*clientcmdapi.AuthInfo, *clientcmdapi.Cluster){
		"exec": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/true", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
		"tokenFile":          func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.TokenFile = "/etc/hostname" },
		"client-certificate": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.ClientCertificate = "/etc/hostname" },
		"client-key":         func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.ClientKey = "/etc/hostname" },
		"auth-provider": func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "x"}
		},
		"certificate-authority": func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) { c.CertificateAuthority = "/etc/hostname" },
		"insecure-skip-tls-verify": func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil
		},
		"proxy-url": func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) { c.ProxyURL = "https://127.0.0.1:1" },
		"https://":  func(_ *clientcmdapi.AuthInfo, c *clientcmdapi.Cluster) { c.Server = "http://127.0.0.1:8080" },
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			changeKubeconfig(t, cluster, func(c *clientcmdapi.Config) {
				for _, user := range c.AuthInfos {
					for _, server := range c.Clusters {
						change(user, server)
					}
				}
			})
			_, err := workload.New(management.Client, "slipway-lifecycle").For(t.Context(), client.ObjectKeyFromObject(cluster))
			wantUnavailable(t, err, name, "correct the key value")
		})
	}
}

func TestAnUnreadableKubeconfigIsNotQuoted(t *testing.T) {
	cluster := newCluster(t)
	s := kubeconfigOf(t, cluster)
	s.Data[secret.KubeconfigDataName] = []byte("users: hunter2")
	if err := management.Client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	_, err := workload.New(management.Client, "slipway-lifecycle").For(t.Context(), client.ObjectKeyFromObject(cluster))
	wantUnavailable(t, err, "c1-kubeconfig", "correct the key value")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error quotes the Secret: %v", err)
	}
}

func wantUnavailable(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !workload.IsUnavailable(err) {
		t.Fatalf("got %v, want an UnavailableError", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
