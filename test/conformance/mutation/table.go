package main

// mutation is one way to break the provider, the lifecycle engine or a boundary, and the rule
// that must notice.
type mutation struct {
	// Rule is "<contract>/<rule>" of test/conformance/provider, or any name with a Test.
	Rule string
	// Breaks says what is wrong afterwards.
	Breaks string
	// File, from the root of the repository, in which Old becomes New wherever it occurs.
	File, Old, New string
	// Contract is the version under which the rule is judged; v1beta2 when empty.
	Contract string
	// Package, from the root of the repository, and Test judge what is no rule of
	// test/conformance/provider. A part of a test follows it after a slash.
	Package, Test string
}

// withoutMutation are the rules that cannot be broken alone, and why.
var withoutMutation = map[string]string{
	"InfraCluster/group": "under another API group nothing of the provider is served, and no rule begins",
}

const (
	crds            = "config/crd/bases/infrastructure.slipway.dev_"
	poolController  = "internal/controller/hostmachinepool/"
	clusterEndpoint = "internal/controller/hostcluster/endpoint.go"
	clusterLoop     = "internal/controller/hostcluster/controller.go"
	clusterDomains  = "internal/controller/hostcluster/failuredomains.go"
	v1beta1         = "v1beta1"
)

var mutations = []mutation{
	{
		Rule: "InfraMachinePool/scope", Breaks: "the template of a pool is cluster-scoped",
		File: crds + "hostmachinepooltemplates.yaml", Old: "scope: Namespaced", New: "scope: Cluster",
	},
	{
		Rule: "InfraMachinePool/typeMeta", Breaks: "the conversion of a pool loses its labels", Contract: v1beta1,
		File: "internal/webhook/conversion/hostmachinepool.go",
		Old:  "dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec", New: "dst.Spec, dst.Name, dst.Namespace, dst.UID = src.Spec, src.Name, src.Namespace, src.UID",
	},
	{
		Rule: "InfraMachinePool/group", Breaks: "core may not update what the provider owns",
		File: "config/rbac/aggregated_role.yaml", Old: "patch, update, watch", New: "patch, watch",
	},
	{
		Rule: "InfraMachinePool/version", Breaks: "a contract label names a version that is not served",
		File: crds + "hostmachinepooltemplates.yaml", Old: "cluster.x-k8s.io/v1beta1: v1beta1", New: "cluster.x-k8s.io/v1beta1: v1alpha4",
	},
	{
		Rule: "InfraMachinePool/resources", Breaks: "the list of pools has another name",
		File: crds + "hostmachinepools.yaml", Old: "listKind: HostMachinePoolList", New: "listKind: HostMachinePools",
	},
	{
		Rule: "InfraMachinePool/instances", Breaks: "instances do not tell their version",
		File: poolController + "publish.go", Old: "			Version:      m.Status.Version,\n", New: "",
	},
	{
		Rule: "InfraMachinePool/machines", Breaks: "core is not told of what kind the machines are",
		File: poolController + "publish.go", Old: "	status.InfrastructureMachineKind = machineKind\n", New: "	_ = machineKind\n",
	},
	{
		Rule: "InfraMachinePool/machinesDrain", Breaks: "scaling down deletes the HostMachine in place of its Machine",
		File: poolController + "scale.go", Old: "r.Client.Delete(ctx, &clusterv1.Machine{ObjectMeta: key})", New: "r.Client.Delete(ctx, &infrav1.HostMachine{ObjectMeta: key})",
	},
	{
		Rule: "InfraMachinePool/providerID", Breaks: "pools of two namespaces have one ID",
		File: poolController + "publish.go", Old: "infrav1.ProviderIDPrefix, pool.Namespace, pool.Name)", New: "infrav1.ProviderIDPrefix, pool.Name, pool.Name)",
	},
	{
		Rule: "InfraMachinePool/providerIDList", Breaks: "an ID leaves the list before its host is clean",
		File: poolController + "publish.go", Old: `id != ""`, New: `id != "" && machines[i].DeletionTimestamp.IsZero()`,
	},
	{
		Rule: "InfraMachinePool/initialization", Breaks: "a pool without a host is provisioned",
		File: poolController + "publish.go", Old: "return claimed >= s.plan.Desired ||", New: "return claimed >= 0 ||",
	},
	{
		Rule: "InfraMachinePool/initialization", Breaks: "replicas count what is wished for",
		File: poolController + "publish.go", Old: "int32(claimed)", New: "int32(s.plan.Desired)",
	},
	{
		Rule: "InfraMachinePool/pausing", Breaks: "a paused pool goes on",
		File: poolController + "controller.go", Old: "err != nil || isPaused || requeue", New: "err != nil || isPaused && err != nil || requeue",
	},
	{
		Rule: "InfraMachinePool/conditions", Breaks: "Ready never becomes true",
		File: poolController + "conditions.go", Old: "= metav1.ConditionTrue, clusterv1.ProvisionedReason", New: "= metav1.ConditionFalse, clusterv1.ProvisionedReason",
	},
	{
		Rule: "InfraMachinePool/replicas", Breaks: "replicas are not told",
		File: poolController + "publish.go", Old: "	status.Replicas = int32(claimed)\n", New: "",
	},
	{
		Rule: "InfraMachinePool/replicasManagedBy", Breaks: "the annotation of an autoscaler is not honoured",
		File: poolController + "scope.go", Old: "return !s.deleting() && s.machinePool", New: "return s.deleting() && s.machinePool",
	},
	{
		Rule: "InfraMachinePool/terminalFailures", Breaks: "the API has a field for a failure of a pool",
		File: crds + "hostmachinepools.yaml",
		Old:  "              infrastructureMachineKind:", New: "              failureReason: {type: string}\n              infrastructureMachineKind:",
	},
	{
		Rule: "InfraMachinePool/template", Breaks: "the list of pool templates has another name",
		File: crds + "hostmachinepooltemplates.yaml", Old: "listKind: HostMachinePoolTemplateList", New: "listKind: HostMachinePoolTemplates",
	},
	{
		Rule: "InfraMachinePool/ssaDryRun", Breaks: "the dry run of the topology controller is refused",
		File: "internal/webhook/rules.go", Old: "topology.IsDryRunRequest(request, obj) ||", New: "topology.IsDryRunRequest(request, obj) && before == nil ||",
	},
	{
		Rule: "InfraMachinePool/multiTenancy", Breaks: "members do not have the filter label of their pool",
		File: poolController + "scale.go", Old: "labels[clusterv1.WatchLabel] = filter", New: "_ = filter",
	},

	{
		Rule: "InfraMachine/scope", Breaks: "the template of a machine is cluster-scoped",
		File: crds + "hostmachinetemplates.yaml", Old: "scope: Namespaced", New: "scope: Cluster",
	},
	{
		Rule: "InfraMachine/typeMeta", Breaks: "the conversion of a machine loses its labels", Contract: v1beta1,
		File: "internal/webhook/conversion/hostmachine.go",
		Old:  "dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec", New: "dst.Spec, dst.Name, dst.Namespace, dst.UID = src.Spec, src.Name, src.Namespace, src.UID",
	},
	{
		Rule: "InfraMachine/group", Breaks: "core may not watch what the provider owns",
		File: "config/rbac/aggregated_role.yaml", Old: "patch, update, watch", New: "patch, update",
	},
	{
		Rule: "InfraMachine/version", Breaks: "a contract label names a version that is not served",
		File: crds + "hostmachinetemplates.yaml", Old: "cluster.x-k8s.io/v1beta1: v1beta1", New: "cluster.x-k8s.io/v1beta1: v1alpha4",
	},
	{
		Rule: "InfraMachine/resources", Breaks: "the list of machines has another name",
		File: crds + "hostmachines.yaml", Old: "listKind: HostMachineList", New: "listKind: HostMachines",
	},
	{
		Rule: "InfraMachine/providerID", Breaks: "a machine has another ID than its Node",
		File: machineController + "/claim.go", Old: "infrav1.ProviderID(claimed.Namespace, claimed.Name, s.hostMachine.Spec.ClaimID)",
		New: "infrav1.ProviderID(claimed.Namespace, s.hostMachine.Name, s.hostMachine.Spec.ClaimID)",
	},
	{
		Rule: "InfraMachine/failureDomain", Breaks: "the failure domain is not published",
		File: machineController + "/observe.go", Old: "s.hostMachine.Status.FailureDomain = host.FailureDomain(s.host, label)", New: "_ = host.FailureDomain(s.host, label)",
	},
	{
		Rule: "InfraMachine/addresses", Breaks: "the addresses are not published",
		File: machineController + "/observe.go", Old: "	status.Addresses = s.host.Status.Addresses\n", New: "",
	},
	{
		Rule: "InfraMachine/initialization", Breaks: "a machine that has a host is never provisioned",
		File: machineController + "/observe.go", Old: "		status.Initialization.Provisioned = ptr.To(true)\n", New: "",
	},
	{
		Rule: "InfraMachine/conditions", Breaks: "Ready never becomes true",
		File: machineController + "/conditions.go", Old: "= metav1.ConditionTrue, infrav1.HostMachineProvisionedReason", New: "= metav1.ConditionFalse, infrav1.HostMachineProvisionedReason",
	},
	{
		Rule: "InfraMachine/terminalFailures", Breaks: "the API has a field for a failure of a machine",
		File: crds + "hostmachines.yaml",
		Old:  "              failureDomain:\n", New: "              failureReason: {type: string}\n              failureDomain:\n",
	},
	{
		Rule: "InfraMachine/template", Breaks: "the list of machine templates has another name",
		File: crds + "hostmachinetemplates.yaml", Old: "listKind: HostMachineTemplateList", New: "listKind: HostMachineTemplates",
	},
	{
		Rule: "InfraMachine/pausing", Breaks: "a paused machine goes on",
		File: machineController + "/controller.go", Old: "err != nil || isPaused || requeue", New: "err != nil || isPaused && err != nil || requeue",
	},
	{
		Rule: "InfraMachine/autoscaling", Breaks: "a template has no capacity",
		File: "internal/controller/hostmachinetemplate/controller.go", Old: "template.Status.Capacity, template.Status.NodeInfo = capacity, info", New: "_ = capacity",
	},
	{
		Rule: "InfraMachine/noOwner", Breaks: "a machine without an owner claims a host",
		File: machineController + "/owner.go", Old: "	case found == nil:\n		s.waiting", New: "	case found == nil && s.hostMachine.Spec.ClaimID == s.cluster.Name:\n		s.waiting",
	},
	{
		Rule: "InfraMachine/noBootstrapData", Breaks: "a machine without bootstrap data claims a host",
		File: machineController + "/owner.go", Old: `found.BootstrapSecret == "" && !s.adopts()`, New: `found.BootstrapSecret == "" && s.adopts()`,
	},
	{
		Rule: "InfraMachine/deleted", Breaks: "a machine goes before its host is clean",
		File: machineController + "/release.go", Old: "if busyResetting(&hosts[i]) {", New: "if busyResetting(&hosts[i]) && s.host != nil {",
	},

	{
		Rule: "InfraCluster/crdName", Breaks: "a kind has another name than core calculates the CRD of",
		File: crds + "hostclustertemplates.yaml", Old: "    kind: HostClusterTemplate\n", New: "    kind: HostClusterPattern\n",
	},
	{
		Rule: "InfraCluster/scope", Breaks: "the template of a cluster is cluster-scoped",
		File: crds + "hostclustertemplates.yaml", Old: "scope: Namespaced", New: "scope: Cluster",
	},
	{
		Rule: "InfraCluster/typeMeta", Breaks: "the conversion of a cluster loses its labels", Contract: v1beta1,
		File: "internal/webhook/conversion/hostcluster.go",
		Old:  "dst.ObjectMeta, dst.Spec = src.ObjectMeta, hostClusterSpecToV1Beta1(src.Spec)\n	dst.Status",
		New:  "dst.Spec, dst.Name, dst.Namespace, dst.UID = hostClusterSpecToV1Beta1(src.Spec), src.Name, src.Namespace, src.UID\n	dst.Status",
	},
	{
		Rule: "InfraCluster/controlPlaneEndpoint", Breaks: "core is never told that the endpoint counts",
		File: clusterLoop, Old: "	s.hostCluster.Status.Initialization.Provisioned = ptr.To(true)\n", New: "",
	},
	{
		Rule: "InfraCluster/controlPlaneEndpoint", Breaks: "an endpoint of contract v1beta1 cannot be empty", Contract: v1beta1,
		File: crds + "hostclusters.yaml", Old: "minLength: 0", New: "minLength: 1",
	},
	{
		Rule: "InfraCluster/ready", Breaks: "core is never told to go on",
		File: clusterLoop, Old: "	s.hostCluster.Status.Initialization.Provisioned = ptr.To(true)\n", New: "",
	},
	{
		Rule: "InfraCluster/failures", Breaks: "the conversion drops a failure", Contract: v1beta1,
		File: "internal/webhook/conversion/hostcluster.go", Old: "FailureReason: src.FailureReason, ", New: "",
	},
	{
		Rule: "InfraCluster/failureDomains", Breaks: "no failure domain is told",
		File: clusterDomains, Old: "s.hostCluster.Status.FailureDomains = domains", New: "_ = domains",
	},
	{
		Rule: "InfraCluster/template", Breaks: "the list of cluster templates has another name",
		File: crds + "hostclustertemplates.yaml", Old: "listKind: HostClusterTemplateList", New: "listKind: HostClusterTemplates",
	},
	{
		Rule: "InfraCluster/lists", Breaks: "the list of machine templates has another name",
		File: crds + "hostmachinetemplates.yaml", Old: "listKind: HostMachineTemplateList", New: "listKind: HostMachineTemplates",
	},
	{
		Rule: "InfraCluster/externallyManaged", Breaks: "a cluster that another system manages is worked on",
		File: clusterLoop, Old: "if annotations.IsExternallyManaged(hostCluster) {", New: "if annotations.IsExternallyManaged(hostCluster) && false {",
	},
	{
		Rule: "InfraCluster/externallyManaged", Breaks: "a host is told to hold the address of a cluster that another system manages",
		File: "internal/controller/hostmachine/operation.go", Old: "annotations.IsExternallyManaged(hostCluster) ||", New: "annotations.IsExternallyManaged(hostCluster) && false ||",
	},
	{
		Rule: "InfraCluster/noOwner", Breaks: "a cluster without an owner is worked on",
		File: clusterLoop, Old: "if cluster == nil && hostCluster.DeletionTimestamp.IsZero() {", New: "if cluster == nil && !hostCluster.CreationTimestamp.IsZero() && false {",
	},
	{
		Rule: "InfraCluster/finalizer", Breaks: "the finalizer is another one",
		File: clusterLoop, Old: "hostCluster, infrav1.HostClusterFinalizer); err != nil || added", New: `hostCluster, "example.com/other"); err != nil || added`,
	},
	{
		Rule: "InfraCluster/endpointRecorded", Breaks: "the endpoint that the Cluster has is not taken over",
		File: clusterEndpoint, Old: "	endpoint.Host = cmp.Or(endpoint.Host, known.Host)\n", New: "",
	},
	{
		Rule: "InfraCluster/errorsStop", Breaks: "a missing endpoint is no problem",
		File: clusterEndpoint, Old: "s.problem = cmp.Or(checkEndpoint(s.hostCluster.Spec), refuseOther(s))", New: "_ = cmp.Or(checkEndpoint(s.hostCluster.Spec), refuseOther(s))",
	},
	{
		Rule: "InfraCluster/persisted", Breaks: "each reconcile writes",
		File: clusterEndpoint, Old: `Reason: infrav1.HostClusterProvisionedReason}`, New: `Reason: infrav1.HostClusterProvisionedReason, Message: s.hostCluster.ResourceVersion}`,
	},
	{
		Rule: "InfraCluster/pausing", Breaks: "a paused cluster goes on",
		File: clusterLoop, Old: "err != nil || isPaused || requeue", New: "err != nil || isPaused && err != nil || requeue",
	},
	{
		Rule: "InfraCluster/conditions", Breaks: "what is missing is not told as False",
		File: clusterEndpoint, Old: "metav1.ConditionFalse, s.problem.reason", New: "metav1.ConditionUnknown, s.problem.reason",
	},
	{
		Rule: "InfraCluster/deletedWithOwner", Breaks: "a cluster goes while it has machines",
		File: clusterLoop, Old: "left > 0 {", New: "left < 0 {",
	},
	{
		Rule: "InfraCluster/deletedWithoutOwner", Breaks: "without an owner the finalizer stays",
		File: clusterLoop, Old: "if cluster == nil && hostCluster.DeletionTimestamp.IsZero() {", New: "if cluster == nil {",
	},
	{
		Rule: "InfraCluster/providerRights", Breaks: "the provider may list all Secrets",
		File: "config/rbac/secrets_role.yaml", Old: "verbs: [get, patch, delete]", New: "verbs: [get, list, patch, delete]",
	},
	{
		Rule: "InfraCluster/coreRights", Breaks: "core may not delete what it made",
		File: "config/rbac/aggregated_role.yaml", Old: "[create, delete, get", New: "[create, get",
	},

	{
		Rule: "MachineHealthCheck/poolMachine", Breaks: "nobody remediates the machines of a pool",
		File: poolController + "controller.go", Old: "r.alignMembers, r.remediate, r.carryOut", New: "r.alignMembers, r.carryOut",
	},
	{
		Rule: "MachineHealthCheck/poolMachine", Breaks: "a machine is remediated while its check holds back",
		File: "internal/pool/observe.go", Old: "		return Failing\n", New: "		return Unhealthy\n",
	},
	{
		Rule: "MachineHealthCheck/machine", Breaks: "a host is given up without a reset",
		File: "internal/controller/hostmachine/release.go", Old: "r.reset(ctx, s, &hosts[i])", New: "r.withdraw(ctx, s, &hosts[i])",
	},
	{
		Rule: "MachineHealthCheck/waitingMachine", Breaks: "a machine that waits for a host is deleted, for another one to wait",
		File: "internal/controller/hostmachine/healthcheck.go", Old: "		return setMark, 0, nil\n", New: "		return unmark, 0, nil\n",
	},

	{
		Rule: "Hazards/rotatedSecret", Breaks: "a new token replaces the machines that run",
		File: poolController + "revision.go", Old: "return bootstrap{fingerprint, until}, err", New: "return bootstrap{fingerprint + secret.ResourceVersion, until}, err",
	},
	{
		Rule: "Hazards/releasedClass", Breaks: "three control planes wait for a fourth host",
		File: "templates/clusterclass-slipway.yaml", Old: "3 }}0", New: "3 }}1",
	},
	{
		Rule: "Hazards/controlPlaneRacks", Breaks: "a control plane is sent to a rack that has hosts for workers only",
		File: clusterDomains, Old: ">= wanted)", New: ">= never)",
	},
	{
		Rule: "Hazards/controlPlaneRacks", Breaks: "a control plane is sent to a rack whose hosts are taken, while another has a free one",
		File: clusterDomains, Old: ">= wanted)", New: ">= later)",
	},
}
