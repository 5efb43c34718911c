package clusterctl

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// team is the namespace that is moved.
const team = "team"

// bootstrapToken enrolls hosts in every management cluster of these tests.
const bootstrapToken = "abcdef.0123456789abcdef"

// management is a management cluster: clusterctl installed the providers, and their
// managers run.
type management struct {
	*user
	*judge.Plane
	// bootstrapKubeconfig enrolls hosts of team.
	bootstrapKubeconfig []byte
	lost                bool
}

// lose is the end of the management cluster, without notice.
func (m *management) lose() {
	m.t.Helper()
	m.lost = true
	if err := m.Stop(); err != nil {
		m.t.Fatal(err)
	}
}

// newManagement installs everything with clusterctl and starts the managers.
func newManagement(t *testing.T, kit *judge.Kit) *management {
	t.Helper()
	m := installed(t, shared.repository)
	slipway, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta1, provider.V1Beta2})
	if err != nil {
		t.Fatal(err)
	}
	m.start(kit, slipway, judge.Core, judge.KubeadmBootstrap, judge.KubeadmControlPlane)
	m.admitHosts()
	return m
}

// installed is an API server on which clusterctl installed the old release of a
// repository. No manager runs.
func installed(t *testing.T, repository string) *management {
	t.Helper()
	m := &management{user: newUser(t, repository)}
	dir, err := judge.Download(t.Context(), judge.CertManager)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := provider.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	if m.Plane, err = judge.StartServer(scheme, filepath.Join(dir, "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range m.Logged("\"level\":\"error\"") {
				t.Log(line)
			}
		}
		for _, line := range m.Logged("is forbidden: User \\\"system:serviceaccount:slipway-system") {
			t.Errorf("a right is missing: %s", line)
		}
		if m.lost {
			return
		}
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	m.writeKubeconfig(m.Config)
	m.run("init", "--infrastructure", "slipway:"+oldVersion)
	return m
}

// start starts managers.
func (m *management) start(kit *judge.Kit, subjects ...judge.Subject) {
	m.t.Helper()
	scheme, err := provider.NewScheme()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.Run(m.t.Context(), judge.Options{Kit: kit, Dir: m.t.TempDir(), Scheme: scheme, Subjects: subjects}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *management) writeKubeconfig(config *rest.Config) {
	m.t.Helper()
	data, err := judge.Kubeconfig(config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.kubeconfig = filepath.Join(m.home, "kubeconfig")
	if err := os.WriteFile(m.kubeconfig, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// admitHosts makes a bootstrap token for hosts of team, as docs/clusterctl.md tells.
func (m *management) admitHosts() {
	m.t.Helper()
	group := infrav1.BootstrapGroupPrefix + team
	if err := client.IgnoreAlreadyExists(m.Client.Create(m.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})); err != nil {
		m.t.Fatal(err)
	}
	m.follow("Enroll hosts", infrav1.HandOverSignerSecretName, "NAMESPACE", team)
	m.create(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + bootstrapToken[:6]},
			Type:       corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				bootstrapapi.BootstrapTokenIDKey: bootstrapToken[:6], bootstrapapi.BootstrapTokenSecretKey: bootstrapToken[7:],
				bootstrapapi.BootstrapTokenUsageAuthentication: "true", bootstrapapi.BootstrapTokenExtraGroupsKey: group,
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "slipway:host-bootstrapper:" + team},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "slipway:host-bootstrapper"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		},
	)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: m.Config.Host, CertificateAuthorityData: m.Config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: bootstrapToken}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	var err error
	if m.bootstrapKubeconfig, err = clientcmd.Write(*config); err != nil {
		m.t.Fatal(err)
	}
}

// handOver requests that the hosts of team go to another management cluster.
func (m *management) handOver(to *management) {
	m.t.Helper()
	m.requestHandOver(to.bootstrapKubeconfig)
}

// requestHandOver requests that the hosts of team go where a bootstrap kubeconfig leads, or are
// brought elsewhere by hand when there is none.
func (m *management) requestHandOver(kubeconfig []byte) {
	m.t.Helper()
	m.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team, Name: infrav1.HandOverSecretName, Labels: map[string]string{infrav1.PurposeLabel: infrav1.HandOverPurpose},
		},
		Type: infrav1.HandOverSecretType,
		Data: map[string][]byte{
			infrav1.HandOverKubeconfigKey: kubeconfig,
			infrav1.HandOverExpirationKey: []byte(time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)),
		},
	})
}

// eventually waits for what managers and agents do.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	poll.Until(t, what, func() error { return check(t.Context()) })
}
