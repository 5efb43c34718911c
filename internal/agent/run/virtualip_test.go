package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// kubeadmFiles are what kubeadm leaves on a control-plane host.
func (s *apiServer) kubeadmFiles(t *testing.T) hostfs.Root {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	if err := os.MkdirAll(root.Path("/etc/kubernetes/pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	kubeconfig := func(server, token string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server, token)
	}
	writeFile(t, root.Path("/etc/kubernetes/controller-manager.conf"), kubeconfig(s.url, "not-to-be-used"))
	// The shared address, which is nowhere when an election is needed most.
	writeFile(t, root.Path("/etc/kubernetes/admin.conf"), kubeconfig("https://192.0.2.1:6443", adminToken))
	for _, name := range []string{"ca.crt", "ca.key"} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, root.Path("/etc/kubernetes/pki/"+name), string(data))
	}
	return root
}

// TestLocalAPIServer runs the client of the election against a real API server.
func TestLocalAPIServer(t *testing.T) {
	level.Deep(t)
	s := startAPIServer(t)
	ctx := t.Context()
	empty := vip.LocalServer{Root: hostfs.Root(t.TempDir()), Now: time.Now}
	if _, err := empty.Lease(ctx); err != vip.ErrNoControlPlane { //nolint:errorlint // the error itself is the contract
		t.Errorf("without a control plane: %v", err)
	}
	poll.Until(t, "kube-system is there", func() error {
		_, err := s.client.Resource(namespaces).Get(ctx, "kube-system", metav1.GetOptions{})
		return err
	})
	root := s.kubeadmFiles(t)
	server := vip.LocalServer{Root: root, Now: time.Now}
	lookUp := func() (err error) {
		_, err = server.Lease(ctx)
		return err
	}
	poll.Until(t, "the Lease and the Role are made", lookUp)
	if err := server.Ready(ctx); err != nil {
		t.Errorf("not ready: %v", err)
	}
	// From here on the administrator's credential is not needed.
	admin := root.Path("/etc/kubernetes/admin.conf")
	if err := os.Rename(admin, admin+".away"); err != nil {
		t.Fatal(err)
	}
	holder := "host-1_1"
	update := func() error {
		lease, err := server.Lease(ctx)
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity = &holder
		_, err = server.UpdateLease(ctx, lease)
		return err
	}
	poll.Until(t, "the Lease is written", update)
	stale, err := server.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stale.ResourceVersion = "1"
	if _, err := server.UpdateLease(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("an old version was written: %v", err)
	}

	// The certificate has no right but that of the Role, which is one Lease.
	role, err := s.client.Resource(roles).Namespace(vip.LeaseNamespace).Get(ctx, vip.ElectionUser, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(role.Object["rules"]), "[map[apiGroups:[coordination.k8s.io] resourceNames:[slipway-control-plane-endpoint] resources:[leases] verbs:[get update]]]"; got != want {
		t.Errorf("the Role allows %s", got)
	}
	if err := s.client.Resource(bindings).Namespace(vip.LeaseNamespace).Delete(ctx, vip.ElectionUser, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "without its Role the certificate may do nothing", func() error {
		if _, err := server.UpdateLease(ctx, stale); !apierrors.IsForbidden(err) {
			return fmt.Errorf("want forbidden, got %w", err)
		}
		return nil
	})
	if err := os.Rename(admin+".away", admin); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the binding is made again", update)

	// A host without the key of the authority has admin.conf only.
	if err := os.Remove(root.Path("/etc/kubernetes/pki/ca.key")); err != nil {
		t.Fatal(err)
	}
	server = vip.LocalServer{Root: root, Now: time.Now}
	poll.Until(t, "an external authority is served too", update)
}
