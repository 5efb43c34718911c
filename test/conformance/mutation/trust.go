package main

// What judges the boundaries, and what is broken most.
const (
	trust          = "test/conformance/trust"
	agentRoles     = "config/rbac/agent_roles.yaml"
	hostController = "internal/controller/host/"
)

// trustMutations break the boundaries of docs/security.md. Each is noticed by the adversary
// of test/conformance/trust that it is about, whose name is that of the part of TestTrust.
var trustMutations = []mutation{
	{
		Rule: "Trust/enrollmentOnlyAsks", Breaks: "the enrollment certificate of a host reads Secrets",
		File: agentRoles, Old: "    name: slipway:enrollments\n", New: "    name: slipway:enrollments\n" + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: slipway:enrollment
rules:
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: slipway:enrollment
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: slipway:enrollment
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: Group
    name: slipway:enrollments
`,
		Package: trust, Test: "TestTrust/thief of the victim's enrollment certificate",
	},
	{
		Rule: "Trust/secretsByNamespace", Breaks: "the manager reads all Secrets although an administrator grants them by namespace",
		File: "config/rbac/secrets_binding.yaml", Old: "secrets${SLIPWAY_MANAGER_SECRETS_BINDING/ClusterRoleBinding/}", New: "secrets",
		Package: trust, Test: "TestSecretsByNamespace",
	},
	{
		Rule: "Trust/secretsByNamespace", Breaks: "a host without bootstrap data tells nobody which right is missing",
		File: hostController + "secretaccess.go", Old: `why != "" {
			tellForbidden(r.Recorder, h.DeepCopy(), "Bootstrap", why)
`, New: "why != \"\" {\n",
		Package: trust, Test: "TestSecretsByNamespace",
	},
	{
		Rule: "Trust/secretsByNamespace", Breaks: "a hand-over tells nobody which right is missing",
		File: hostController + "handover.go", Old: `			tellForbidden(r.Recorder, secret, "HandOver", why)
`, New: "", Package: trust, Test: "TestSecretsByNamespace",
	},
	{
		Rule: "Trust/secretsByNamespace", Breaks: "an adoption tells nobody which right is missing",
		File: "internal/controller/hostmachine/adopt.go", Old: "		return unknown(why)\n", New: "		return unknown(\"it cannot be read\")\n",
		Package: trust, Test: "TestSecretsByNamespace",
	},
	{
		Rule: "Trust/secretsByNamespace", Breaks: "an extension tells nobody which right its CA needs",
		File: "internal/controller/extensionconfig/ca.go", Old: `fmt.Errorf("read Secret %s: %s", reference, why)`, New: `fmt.Errorf("read Secret %s: %w", reference, err)`,
		Package: trust, Test: "TestSecretsByNamespace",
	},
	{
		Rule: "Trust/rightsGoByTheKey", Breaks: "the user name of an agent says nothing about its key",
		File: "api/v1beta2/names.go", Old: "hostID[:min(len(hostID), agentKeyDigits)]", New: `"key"`,
		Package: trust, Test: "TestTrust/agent of the machine that the victim replaced",
	},
	{
		Rule: "Trust/namesHaveKeys", Breaks: "rights are given to a name that says nothing of the key",
		File: hostController + "access.go", Old: "Name: infrav1.AgentUser(h.Namespace, h.Name, h.Spec.HostID),", New: "Name: infrav1.AgentUserPrefix + h.Namespace + \":\" + h.Name,",
		Package: trust, Test: "TestTrust/agent whose name has no key",
	},
	{
		Rule: "Trust/agentsOfOneHost", Breaks: "an agent reads every Host of its namespace",
		File: hostController + "access.go", Old: `[]string{"hosts"}, ResourceNames: this,`, New: `[]string{"hosts"},`,
		Package: trust, Test: "TestTrust/agent of another host",
	},
	{
		Rule: "Trust/agentsOfOneHost", Breaks: "an agent has a right on its Lease that nobody needs",
		File: hostController + "access.go", Old: `[]string{"leases"}, ResourceNames: this, Verbs: []string{"get", "patch", "update"}`,
		New:     `[]string{"leases"}, ResourceNames: this, Verbs: []string{"get", "list", "patch", "update"}`,
		Package: trust, Test: "TestTrust/the victim's own agent",
	},
	{
		Rule: "Trust/tokensOnlyAsk", Breaks: "a bootstrap token lists who else asks for certificates",
		File: agentRoles, Old: "  name: slipway:host-bootstrapper\nrules:\n  - apiGroups: [certificates.k8s.io]\n    resources: [certificatesigningrequests]\n    verbs: [create, get]",
		New:     "  name: slipway:host-bootstrapper\nrules:\n  - apiGroups: [certificates.k8s.io]\n    resources: [certificatesigningrequests]\n    verbs: [create, get, list]",
		Package: trust, Test: "TestTrust/thief of an enrollment token",
	},
	{
		Rule: "Trust/tokenUses", Breaks: "a token enrolls more machines than it says",
		File: hostController + "token.go", Old: "	case uses.Exhausted():\n", New: "	case uses.Exhausted() && uses.Limit < 0:\n",
		Package: trust, Test: "TestTrust/a token that is used up",
	},
	{
		Rule: "Trust/approval", Breaks: "a host that nobody approved is claimed",
		File: "internal/host/approval.go", Old: `return h.Spec.Approval == "" || h.Spec.Approval == infrav1.HostApprovalApproved`, New: "return h.Spec.Approval != infrav1.HostApprovalDenied",
		Package: trust, Test: "TestTrust/a smuggled host",
	},
	{
		Rule: "Trust/workingKeys", Breaks: "a certificate to work with lasts as long as its agent asks",
		File: hostController + "csrrequest.go", Old: "lifetime == nil || *lifetime > longest", New: "lifetime != nil && *lifetime > 365*longest",
		Package: trust, Test: "TestTrust/a host with keys of its own",
	},
	{
		Rule: "Trust/workingKeys", Breaks: "who has a bootstrap token gets a certificate to work with",
		File: hostController + "csrrequest.go", Old: "	if !slices.Contains(csr.Spec.Groups, infrav1.EnrollmentGroup) || host.AgentOfEnrollment(csr.Spec.Username) != user {\n",
		New:     "	if len(csr.Spec.Groups) == 0 {\n",
		Package: trust, Test: "TestTrust/a host with keys of its own",
	},
	{
		Rule: "Trust/certificatesOfHosts", Breaks: "the manager's rights approve anybody's certificate",
		File: "config/admission/certificate_policy.yaml", Old: "validationActions: [Deny]", New: "validationActions: [Audit]",
		Package: trust, Test: "TestTrust/the manager taken over",
	},
	{
		Rule: "Trust/reportsOfAgents", Breaks: "an agent writes what the manager says on its Lease",
		File: "config/admission/agent_policy.yaml", Old: "variables.before[?k] == optional.of(variables.after[k])", New: "true",
		Package: "internal/webhook", Test: "TestAgentsWriteOnlyTheirReports",
	},
	{
		Rule: "Trust/reportsOfAgents", Breaks: "an agent writes the conditions of its Host",
		File: "config/admission/agent_policy.yaml", Old: "object.?status.?conditions.orValue([]) == oldObject.?status.?conditions.orValue([])", New: "'true'",
		Package: "internal/webhook", Test: "TestAgentsWriteOnlyTheirReports",
	},
	{
		Rule: "Trust/reportsOfAgents", Breaks: "a request of an agent is somebody else's by its labels",
		File: "config/admission/agent_policy.yaml", Old: "k in ['infrastructure.slipway.dev/host', 'infrastructure.slipway.dev/hand-over']", New: "true",
		Package: "internal/webhook", Test: "TestRequestsOfAgentsAreNobodyElses",
	},
	{
		Rule: "Trust/secretsOfOthers", Breaks: "the manager's rights change anybody's Secret",
		File: "config/admission/token_policy.yaml", Old: "validationActions: [Deny]", New: "validationActions: [Audit]",
		Package: trust, Test: "TestTrust/the manager taken over",
	},
	{
		Rule: "Trust/handOvers", Breaks: "who writes Secrets leads hosts to another management cluster",
		File: "config/admission/hand_over_policy.yaml", Old: "validationActions: [Deny]", New: "validationActions: [Audit]",
		Package: trust, Test: "TestTrust/tenant who may write Secrets",
	},
	{
		Rule: "Trust/hardwareLabels", Breaks: "who maintains hosts labels them as hardware that they are not",
		File: "config/admission/host_policy.yaml", Old: "        variables.mayOrder\n        || (object.metadata.?labels", New: "        true\n        || (object.metadata.?labels",
		Package: trust, Test: "TestTrust/operator of hosts",
	},
	{
		Rule: "Trust/orders", Breaks: "who maintains hosts has an agent read any Secret and execute it",
		File: "config/admission/host_policy.yaml", Old: "object.?spec.?desired == oldObject.?spec.?desired || variables.mayOrder", New: "'true'",
		Package: trust, Test: "TestTrust/operator of hosts",
	},
	{
		Rule: "Trust/orders", Breaks: "who maintains hosts says which version their agents become",
		File: "config/admission/host_policy.yaml", Old: "object.?spec.?agent == oldObject.?spec.?agent || variables.mayOrder", New: "'true'",
		Package: trust, Test: "TestTrust/operator of hosts",
	},
	{
		Rule: "Trust/assignments", Breaks: "who maintains hosts gives them to another namespace",
		File: "config/admission/host_policy.yaml", Old: "object.?spec.?assignedNamespace.orValue('') == oldObject.?spec.?assignedNamespace.orValue('') || variables.mayOrder", New: "'true'",
		Package: trust, Test: "TestTrust/operator of hosts",
	},
	{
		Rule: "Trust/assignments", Breaks: "a host that goes from one namespace to another counts as a clone of itself",
		File: "internal/host/move.go", Old: "return Leaving(h) && other.Namespace", New: "return false && other.Namespace",
		Package: trust, Test: "TestTrust/a host that is assigned",
	},
	{
		Rule: "Trust/everybody", Breaks: "every user files requests as hosts do",
		File: agentRoles, Old: "    name: slipway:enrollments\n", New: "    name: system:authenticated\n",
		Package: trust, Test: "TestTrust/tenant without rights",
	},
	{
		Rule: "Trust/runsAreTheEngines", Breaks: "who may create runs makes one that is approved",
		File: decisions + "/run.go", Old: `	return d.access.require(ctx, field.NewPath("spec"), runAttributes(run, importVerb, ""))`, New: "	return nil",
		Package: trust, Test: "TestTrust/tenant who may create runs",
	},
	{
		Rule: "Trust/deciders", Breaks: "who decides deletes runs",
		File: "config/lifecycle/rbac/decider_role.yaml", Old: "verbs: [get, list, watch, patch]", New: "verbs: [get, list, watch, patch, delete]",
		Package: trust, Test: "TestTrust/decider",
	},
	{
		Rule: "Trust/authors", Breaks: "a policy does for its author what the author may not do",
		File: decisions + "/policy.go", Old: "	if err := v.authorize(ctx, p); err != nil {\n", New: "	if err := v.authorize(ctx, p); err != nil && p.Name == \"\" {\n",
		Package: trust, Test: "TestTrust/author of policies",
	},
	{
		Rule: "Trust/hooksAreForCore", Breaks: "any pod that reaches the port calls hooks",
		File: "internal/program/hooks.go", Old: "	if !h.InsecureHooks {\n		options", New: "	if false {\n		options",
		Package: trust, Test: "TestTrust/nobody",
	},
	{
		Rule: "Trust/hooksAreForCore", Breaks: "pods of another namespace reach the port of hooks",
		File: "config/lifecycle/manager/networkpolicy.yaml", Old: "cluster.x-k8s.io/provider: cluster-api", New: "kubernetes.io/metadata.name: default",
		Package: trust, Test: "TestNetworkPolicy",
	},
	{
		Rule: "Trust/engine", Breaks: "the lifecycle engine reads every Secret",
		File: "config/lifecycle/rbac/role.yaml", Old: "  - namespaces\n", New: "  - namespaces\n  - secrets\n",
		Package: trust, Test: "TestTrust/the lifecycle engine taken over",
	},
}
