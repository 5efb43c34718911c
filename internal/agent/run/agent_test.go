package run_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/agent/uninstall"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secretsGVR = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	hosts      = infrav1.GroupVersion.WithResource("hosts")
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	roles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	bindings   = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	cRoles     = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	cBindings  = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	csrs       = schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}

	listAll   = metav1.ListOptions{}
	createNow = metav1.CreateOptions{}
)

// manager plays the Host controller and the signer: it approves requests, makes
// Host, Lease and Role, and signs.
type manager struct {
	*apiServer
	life time.Duration

	mu       sync.Mutex
	requests map[string][]byte
}

func (m *manager) run(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		list, err := m.client.Resource(csrs).List(ctx, listAll)
		if err != nil {
			continue
		}
		for _, item := range list.Items {
			if certificate, _, _ := unstructured.NestedString(item.Object, "status", "certificate"); certificate == "" {
				m.grant(ctx, t, &item)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *manager) grant(ctx context.Context, t *testing.T, csr *unstructured.Unstructured) {
	encoded, _, _ := unstructured.NestedString(csr.Object, "spec", "request")
	request, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Error(err)
		return
	}
	m.mu.Lock()
	m.requests[csr.GetName()] = request
	m.mu.Unlock()
	agent := infrav1.AgentUserPrefix + strings.TrimPrefix(strings.TrimPrefix(userOf(t, request), infrav1.EnrollmentUserPrefix), infrav1.AgentUserPrefix)
	m.makeHost(ctx, t, csr.GetLabels()[infrav1.HostLabel], agent)
	_ = unstructured.SetNestedSlice(csr.Object, []any{map[string]any{"type": "Approved", "status": "True", "reason": "Test", "message": "test"}}, "status", "conditions")
	approved, err := m.client.Resource(csrs).Update(ctx, csr, metav1.UpdateOptions{}, "approval")
	if err != nil {
		return
	}
	_ = unstructured.SetNestedField(approved.Object, base64.StdEncoding.EncodeToString(m.sign(t, request, m.life)), "status", "certificate")
	if _, err := m.client.Resource(csrs).UpdateStatus(ctx, approved, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
		t.Errorf("sign: %v", err)
	}
}

// userOf is the user that a certificate request is for.
func userOf(t *testing.T, request []byte) string {
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Error(err)
		return ""
	}
	return parsed.Subject.CommonName
}

// makeHost gives the agent what the Host controller gives it.
func (m *manager) makeHost(ctx context.Context, t *testing.T, name, user string) {
	this := []any{name}
	for gvr, object := range map[schema.GroupVersionResource]map[string]any{
		hosts:  {"apiVersion": infrav1.GroupVersion.String(), "kind": "Host"},
		leases: {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
		roles: {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []any{
			map[string]any{"apiGroups": []any{hosts.Group}, "resources": []any{"hosts"}, "resourceNames": this, "verbs": []any{"get", "list", "watch"}},
			map[string]any{"apiGroups": []any{hosts.Group}, "resources": []any{"hosts/status"}, "resourceNames": this, "verbs": []any{"get", "patch", "update"}},
			map[string]any{"apiGroups": []any{leases.Group}, "resources": []any{"leases"}, "resourceNames": this, "verbs": []any{"get", "patch", "update"}},
		}},
		bindings: {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}},
	} {
		object["metadata"] = map[string]any{"name": name, "namespace": "ns"}
		_, err := m.client.Resource(gvr).Namespace("ns").Create(ctx, &unstructured.Unstructured{Object: object}, createNow)
		if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			t.Errorf("create %s: %v", gvr.Resource, err)
		}
	}
}

// allowRequests lets tokens and agents file certificate requests.
func (m *manager) allowRequests(t *testing.T) {
	t.Helper()
	name := map[string]any{"name": "requests"}
	m.create(t, cRoles, "", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name, "rules": []any{
		map[string]any{"apiGroups": []any{csrs.Group}, "resources": []any{csrs.Resource}, "verbs": []any{"create", "get"}},
	}})
	group := func(name string) any {
		return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
	}
	m.create(t, cBindings, "", map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": name,
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "requests"},
		"subjects": []any{group(infrav1.BootstrapGroupPrefix + "ns"), group(infrav1.EnrollmentGroup)}})
}

func (m *manager) host(t *testing.T) *infrav1.Host {
	t.Helper()
	u, err := m.client.Resource(hosts).Namespace("ns").Get(t.Context(), "host-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &infrav1.Host{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, h); err != nil {
		t.Fatal(err)
	}
	return h
}

func (m *manager) patchSpec(t *testing.T, patch string) {
	t.Helper()
	_, err := m.client.Resource(hosts).Namespace("ns").Patch(t.Context(), "host-1", types.MergePatchType, []byte(`{"spec":`+patch+`}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// runAgent runs one life of an agent until stop is called.
func runAgent(t *testing.T, m *manager, h *fakehost.Host, stateDir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(filepath.Join(stateDir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(stateDir, "bootstrap")
	writeFile(t, kubeconfig, m.bootstrapKubeconfig(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		enroller := &enroll.Enroller{StateDir: stateDir, BootstrapKubeconfig: kubeconfig, Namespace: "ns", HostName: "host-1", Log: log, Now: time.Now, AllowLoopback: true}
		session, err := enroller.Enroll(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("enroll: %v", err)
			}
			return
		}
		wg.Go(func() { session.Run(ctx) })
		collector := inventory.Collector{
			Root: h.Root, Hostname: func() (string, error) { return "host-1", nil }, Interfaces: h.Network.Interfaces,
			Versions: h.Executor.Versions.Installed, Hardware: (&inventory.Reader{Root: h.Root}).Read, AgentVersion: "v1",
		}
		a, err := link.New(link.Options{
			Namespace: "ns", HostName: "host-1", HostID: "id", Config: session.Config(), Journal: j, Executor: h.Executor,
			Inventory: collector.Collect, BootID: inventory.BootID(h.Root), HeartbeatInterval: time.Second, LeaseDuration: 4 * time.Second, Log: log,
			Disconnected: session.CloseConnections, Refused: session.Refused, CertificateExpires: session.Expires,
		})
		if err != nil {
			t.Error(err)
			return
		}
		a.Run(ctx)
	})
	return func() {
		cancel()
		wg.Wait()
		_ = j.Close()
	}
}

const cloudConfig = `## template: jinja
#cloud-config
write_files:
- path: /etc/kubernetes/name
  content: "{{ ds.meta_data.local_hostname }}"
runcmd:
- "true"
`

// TestOlderAPIServer: the CRDs of the management cluster are older than the agent, and somebody else writes to its part of the status. What
// they know of a report arrives, the Lease says at once what does not, and the agent's fields become the agent's again.
func TestOlderAPIServer(t *testing.T) {
	level.Deep(t)
	m := &manager{apiServer: startAPIServer(t, "capacity", "node"), life: time.Hour, requests: map[string][]byte{}}
	m.allowRequests(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx, t); close(done) }()
	defer func() { cancel(); <-done }()
	h, stateDir := fakehost.New(t), t.TempDir()
	stop := runAgent(t, m, h, stateDir)
	poll.Until(t, "the Host exists", func() error {
		_, err := m.client.Resource(hosts).Namespace("ns").Get(t.Context(), "host-1", metav1.GetOptions{})
		return err
	})
	reported := func(h *infrav1.Host) bool {
		return h.Status.CleanProof != nil && h.Status.BootID == "boot-1" && len(h.Status.Addresses) == 2
	}
	awaitHost(t, m, "the parts of the report that the API knows", reported)
	if h := m.host(t); h.Status.Capacity != nil || h.Status.Inventory.AgentVersion != "v1" {
		t.Errorf("the API knows no capacity, and has %+v", h.Status)
	}
	poll.Until(t, "the Lease has what was refused", func() error {
		if refused := m.lease(t).GetAnnotations()[infrav1.ReportRefusedAnnotation]; !strings.Contains(refused, "capacity: ") {
			return fmt.Errorf("it says %q", refused)
		}
		return nil
	})
	stop()
	other := fmt.Sprintf(`{"apiVersion": %q, "kind": "Host", "metadata": {"name": "host-1", "namespace": "ns"}, "status": {"bootID": "another", "addresses": []}}`, infrav1.GroupVersion)
	if _, err := m.client.Resource(hosts).Namespace("ns").Patch(t.Context(), "host-1", types.ApplyPatchType, []byte(other), metav1.PatchOptions{FieldManager: "somebody", Force: ptr.To(true)}, "status"); err != nil {
		t.Fatal(err)
	}
	if h := m.host(t); h.Status.BootID != "another" {
		t.Fatalf("the boot ID is %q", h.Status.BootID)
	}
	defer runAgent(t, m, h, stateDir)()
	awaitHost(t, m, "the agent's own values", reported)
}

func TestAgentAgainstARealAPIServer(t *testing.T) {
	level.Deep(t)
	m := &manager{apiServer: startAPIServer(t), life: 6 * time.Second, requests: map[string][]byte{}}
	m.allowRequests(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.run(ctx, t); close(done) }()
	defer func() { cancel(); <-done }()
	h, stateDir := fakehost.New(t), t.TempDir()
	stop := runAgent(t, m, h, stateDir)

	t.Log("enrolls, proves to be clean, and beats")
	poll.Until(t, "the Host exists", func() error {
		_, err := m.client.Resource(hosts).Namespace("ns").Get(t.Context(), "host-1", metav1.GetOptions{})
		return err
	})
	awaitHost(t, m, "proof", func(h *infrav1.Host) bool { return h.Status.CleanProof != nil && h.Status.BootID == "boot-1" })
	if s := m.host(t).Status; s.Inventory.AgentVersion != "v1" || s.Capacity.Memory().Value() != 1<<20 || len(s.Addresses) != 2 {
		t.Errorf("inventory %+v, capacity %v, addresses %v", s.Inventory, s.Capacity, s.Addresses)
	}

	t.Log("tells how it stands, by its own certificate")
	c := config.Default()
	c.Namespace, c.HostName, c.StateDir = "ns", "host-1", stateDir
	poll.Until(t, "a status with a heartbeat", func() error {
		status, err := run.ReadStatus(t.Context(), c)
		if err != nil || status.Connection.State != run.ConnectionConnected || status.Connection.LastHeartbeat == nil || status.Server != m.url ||
			status.CertificateExpires == nil || time.Until(*status.CertificateExpires) > m.life || status.EnrollmentExpires == nil || status.Journal.CleanProof == nil {
			return fmt.Errorf("%+v, %w", status, err)
		}
		return nil
	})

	t.Log("bootstraps although the right to read the Secret lags")
	m.create(t, secretsGVR, "ns", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "boot"},
		"data": map[string]any{"value": base64.StdEncoding.EncodeToString([]byte(cloudConfig)), "format": base64.StdEncoding.EncodeToString([]byte("cloud-config"))}})
	m.patchSpec(t, `{"claimGeneration":1,"claim":{"machineName":"m","clusterName":"c","claimID":"a"},
		"desired":{"phase":"Bootstrapped","operationID":"b","bootstrapSecretName":"boot","providerID":"slipway://ns/host-1/a"}}`)
	awaitHost(t, m, "a report on the Secret", func(h *infrav1.Host) bool {
		return h.Status.ObservedOperation != nil && h.Status.ObservedOperation.Reason == "BootstrapSecretUnavailable"
	})
	role := `[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"resourceNames":["boot"],"verbs":["get"]}}]`
	if _, err := m.client.Resource(roles).Namespace("ns").Patch(t.Context(), "host-1", types.JSONPatchType, []byte(role), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitOperation(t, m, "b", infrav1.OperationSucceeded)
	if got, err := os.ReadFile(h.Root.Path("/etc/kubernetes/name")); err != nil || string(got) != "host-1" {
		t.Fatalf("the file is %q: %v", got, err)
	}

	t.Log("renews, each working certificate of a key of its own, and goes on after the first ones have ended")
	poll.Until(t, "two renewals of both", func() error {
		if enrollments, working := m.keys(t); len(enrollments) < 3 || len(working) < 3 {
			return fmt.Errorf("%d and %d requests", len(enrollments), len(working))
		}
		return nil
	})
	enrollments, working := m.keys(t)
	for i, key := range enrollments {
		if !bytes.Equal(key, enrollments[0]) || slices.ContainsFunc(working, func(other []byte) bool { return bytes.Equal(key, other) }) {
			t.Errorf("the identity key of request %d is another one, or works", i)
		}
	}
	if distinct := slices.CompactFunc(slices.SortedFunc(slices.Values(working), bytes.Compare), bytes.Equal); len(distinct) != len(working) {
		t.Errorf("%d working certificates are of %d keys", len(working), len(distinct))
	}
	beat := m.renewTime(t)
	poll.Until(t, "another heartbeat", func() error {
		if now := m.renewTime(t); now == beat {
			return fmt.Errorf("still %s", now)
		}
		return nil
	})

	t.Log("tells when the certificate ends that it works with")
	poll.Until(t, "the Lease says so", func() error {
		if ends, err := time.Parse(time.RFC3339, m.lease(t).GetAnnotations()[infrav1.CertificateExpirationAnnotation]); err != nil || ends.Before(time.Now()) {
			return fmt.Errorf("%s: %w", ends, err)
		}
		return nil
	})

	t.Log("resets after a restart")
	stop()
	stop = runAgent(t, m, h, stateDir)
	defer func() { stop() }()
	m.patchSpec(t, `{"desired":{"phase":"Reset","operationID":"r","resetPolicy":"Kubeadm","bootstrapSecretName":null,"providerID":null}}`)
	awaitOperation(t, m, "r", infrav1.OperationSucceeded)
	if p := m.host(t).Status.CleanProof; p == nil || p.ClaimGeneration != 1 {
		t.Fatalf("proof %+v", p)
	}

	t.Log("serves the first claim of a Host that was enrolled again")
	if err := m.client.Resource(hosts).Namespace("ns").Delete(t.Context(), "host-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The manager makes it, too, if the agent asks for a certificate in that moment.
	again := &unstructured.Unstructured{Object: map[string]any{"apiVersion": infrav1.GroupVersion.String(), "kind": "Host", "metadata": map[string]any{"name": "host-1"}}}
	if _, err := m.client.Resource(hosts).Namespace("ns").Create(t.Context(), again, createNow); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	awaitHost(t, m, "a proof of the new Host", func(h *infrav1.Host) bool {
		return h.Status.CleanProof != nil && h.Status.CleanProof.ClaimGeneration == 0
	})
	m.patchSpec(t, `{"claimGeneration":1,"claim":{"machineName":"m2","clusterName":"c","claimID":"a2"},
		"desired":{"phase":"Bootstrapped","operationID":"b2","bootstrapSecretName":"boot","providerID":"slipway://ns/host-1/a2"}}`)
	awaitOperation(t, m, "b2", infrav1.OperationSucceeded)

	t.Log("keeps no file that an uninstall does not know of")
	stop()
	uninstalled(t, stateDir)
}

// uninstalled takes away a state directory that somebody else chose, where an uninstall
// removes the agent's files alone. The host is a node, but for the journal.
func uninstalled(t *testing.T, stateDir string) {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	c := config.Default()
	c.StateDir = "/srv/state"
	c.BootstrapKubeconfig = c.StateDir + "/bootstrap"
	err := errors.Join(os.MkdirAll(root.Path("/var/lib"), 0o755), os.MkdirAll(root.Path("/srv"), 0o755), os.CopyFS(root.Path(c.StateDir), os.DirFS(stateDir)))
	if err == nil {
		err = os.Remove(root.Path(c.StateDir + "/journal"))
	}
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, root.Path(c.StateDir+"/lock"), "")
	h := uninstall.Host{Root: root, Config: c, Software: &software.Host{Root: root}}
	if report, err := h.Run(t.Context()); err != nil || len(report.Left) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// keys are those of the requests for enrollment certificates and for working ones. On a slow
// machine a certificate of this test may have ended when the agent looks, which asks once
// more, as its attempt 2, for the same key: that is no renewal.
func (m *manager) keys(t *testing.T) (enrollments, working [][]byte) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, request := range m.requests {
		if !strings.HasSuffix(name, "-1") {
			continue
		}
		block, _ := pem.Decode(request)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(csr.Subject.CommonName, infrav1.EnrollmentUserPrefix) {
			enrollments = append(enrollments, csr.RawSubjectPublicKeyInfo)
		} else {
			working = append(working, csr.RawSubjectPublicKeyInfo)
		}
	}
	return enrollments, working
}

func (m *manager) lease(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	lease, err := m.client.Resource(leases).Namespace("ns").Get(t.Context(), "host-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func (m *manager) renewTime(t *testing.T) string {
	t.Helper()
	renewed, _, _ := unstructured.NestedString(m.lease(t).Object, "spec", "renewTime")
	return renewed
}

func awaitHost(t *testing.T, m *manager, what string, holds func(*infrav1.Host) bool) {
	t.Helper()
	poll.Until(t, what, func() error {
		if h := m.host(t); !holds(h) {
			return fmt.Errorf("status %+v, operation %+v", h.Status, h.Status.ObservedOperation)
		}
		return nil
	})
}

func awaitOperation(t *testing.T, m *manager, id string, state infrav1.OperationState) {
	t.Helper()
	awaitHost(t, m, fmt.Sprintf("operation %s is %s", id, state), func(h *infrav1.Host) bool {
		op := h.Status.ObservedOperation
		return op != nil && op.ID == id && op.State == state
	})
}
