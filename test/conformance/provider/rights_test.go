package provider_test

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// rights are those that the provider was granted, and those that it used or passed
// on while all rules were judged.
type rights struct{ granted, used map[judge.Right]bool }

// elsewhere are rights that the rules give no occasion to use, and what does.
var elsewhere = map[judge.Right]string{
	{Group: "authentication.k8s.io", Resource: "tokenreviews", Verb: "create"}:                      "metrics are served to who may read them",
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verb: "create"}:               "metrics are served to who may read them",
	{Group: "certificates.k8s.io", Resource: "signers", Verb: "approve"}:                            "admission asks for it when a CSR is approved",
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests/approval", Verb: "update"}: "enrollment: TestEnrollment of internal/controller/host",
	{Group: "infrastructure.slipway.dev", Resource: "hosts", Verb: "create"}:                        "enrollment: TestEnrollment of internal/controller/host",
	{Group: "infrastructure.slipway.dev", Resource: "hosts", Verb: "order"}:                         "the admission policy of Hosts asks for it: config/admission/host_policy.yaml",
	{Group: "infrastructure.slipway.dev", Resource: "hosts/finalizers", Verb: "update"}:             "admission may ask for it when an object with a blocking owner is created",
	{Group: "infrastructure.slipway.dev", Resource: "hostmachinepools/finalizers", Verb: "update"}:  "admission may ask for it when an object with a blocking owner is created",
	{Group: "bootstrap.cluster.x-k8s.io", Resource: "kubeadmconfigs", Verb: "get"}:                  "pools with a bootstrap config: TestVersionAndContentRollOnce of internal/controller/hostmachinepool",
	{Group: "controlplane.cluster.x-k8s.io", Resource: "*", Verb: "get"}:                            "control planes of other providers: TestAhead of internal/placement",
	{Group: "", Resource: "namespaces", Verb: "get"}:                                                "extensions with a namespaceSelector: internal/controller/extensionconfig",
	{Group: "", Resource: "secrets", Verb: "patch"}:                                                 "hand-over: TestHandOverIsSignedAndReadable of internal/controller/host",
	{Group: "", Resource: "secrets", Verb: "delete"}:                                                "enrollment: TestUsedUpTokenGoes of internal/controller/host",
	{Group: "infrastructure.slipway.dev", Resource: "agentreleases/status", Verb: "patch"}:          "updates of agents: TestRollout of internal/controller/agentrelease",
	{Group: "infrastructure.slipway.dev", Resource: "hostlogrequests", Verb: "delete"}:              "logs of hosts: TestLogRequests of internal/controller/host",
	{Group: "infrastructure.slipway.dev", Resource: "hostlogrequests/status", Verb: "patch"}:        "logs of hosts: TestLogRequests of internal/controller/host",
	{Group: "lifecycle.slipway.dev", Resource: "lifecycleruns", Verb: "get"}:                        "metrics of states: TestStatesAreCounted of internal/manager",
	{Group: "runtime.slipway.dev", Resource: "hostextensionconfigs", Verb: "patch"}:                 "extensions: internal/controller/extensionconfig",
	{Group: "runtime.slipway.dev", Resource: "hostextensionconfigs/status", Verb: "patch"}:          "extensions: internal/controller/extensionconfig",
}

// reading is one right in three verbs: which of them a cache uses is up to client-go.
var reading = []string{"get", "list", "watch"}

// recording is one right in two verbs: client-go's recorder patches an event that happens
// again within minutes, which the rules leave to chance.
var recording = []string{"create", "patch"}

// making is one right in two verbs: a Role that is there already is brought up to date, which
// depends on whether the cache knows its RoleBinding yet, or an earlier release wrote it.
var making = []string{"create", "update"}

func (r *rights) add(t *testing.T, plane *judge.Plane, subject judge.Subject) {
	t.Helper()
	used, err := plane.Used(subject)
	if err != nil {
		t.Fatal(err)
	}
	passedOn, err := plane.PassedOn(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, rights := range []map[judge.Right]bool{used, passedOn} {
		for right := range rights {
			r.used[right] = true
		}
	}
	if r.granted, err = plane.Granted(t.Context(), subject); err != nil {
		t.Fatal(err)
	}
}

// check holds the provider to least privilege: it uses what it may do, and nothing
// in the manifests is left over. That nothing is missing is judged by every rule.
func (r *rights) check(t *testing.T) {
	t.Helper()
	for right := range r.granted {
		switch why, excepted := elsewhere[right]; {
		case r.isUsed(right) && excepted:
			t.Errorf("%s is used by the rules; it is no exception (%s)", right, why)
		case !r.isUsed(right) && !excepted:
			t.Errorf("%s is granted and never used", right)
		}
	}
}

func (r *rights) isUsed(right judge.Right) bool {
	verbs := []string{right.Verb}
	switch {
	case slices.Contains(reading, right.Verb):
		verbs = reading
	case right.Group == "events.k8s.io" && right.Resource == "events":
		verbs = recording
	case right.Group == "rbac.authorization.k8s.io" && right.Resource == "roles" && slices.Contains(making, right.Verb):
		verbs = making
	}
	return slices.ContainsFunc(verbs, func(verb string) bool {
		right.Verb = verb
		return r.used[right]
	})
}
