package webhook_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

func logRequest(namespace, host, by string) *infrav1.HostLogRequest {
	return &infrav1.HostLogRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: host + "-"},
		Spec:       infrav1.HostLogRequestSpec{HostName: host, Unit: infrav1.HostLogKubelet, RequestedBy: by},
	}
}

// Who requests a log is who the API server knows, in a namespace where they may.
func TestLogRequestsNameTheirUser(t *testing.T) {
	testenv.Skip(t)
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	env.GrantIn(t, "ann", namespace, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hostlogrequests"}, Verbs: []string{"create", "update"}})
	ann := as(t, "ann")
	request := logRequest(namespace, "host-1", "ann")
	poll.Until(t, "the API server learns of the right", func() error { return ann.Create(t.Context(), request) })
	for what, tc := range map[string]struct {
		err  error
		want string
	}{
		"another user":      {ann.Create(t.Context(), logRequest(namespace, "host-1", "bob")), `spec.requestedBy: must be "ann"`},
		"another namespace": {ann.Create(t.Context(), logRequest(elsewhere, "host-1", "ann")), "forbidden"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, tc.err, tc.want)
		}
	}
	for host, name := range map[string]string{"host": "host-1-x", "host-1": "log-x", "host-2": "host-2", "host-3": "host-3-x-y", "host-4": "host-4x"} {
		foreign := logRequest(namespace, host, "ann")
		foreign.Name, foreign.GenerateName = name, ""
		if err := ann.Create(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "metadata.name must be spec.hostName") {
			t.Errorf("a request for %s that is called %s: %v", host, name, err)
		}
	}
	request.Spec.Unit = infrav1.HostLogAgent
	if err := ann.Update(t.Context(), request); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("a change of the request: %v", err)
	}
}

// Whatever RBAC lets an agent write, it answers requests for its own host, once, and requests none.
func TestAgentsAnswerOnlyForTheirHost(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	user := infrav1.AgentUser(namespace, "host-1", "id")
	env.GrantIn(t, user, namespace, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hostlogrequests", "hostlogrequests/status"}, Verbs: []string{"create", "patch"}})
	agent, err := client.New(env.As(user, infrav1.AgentGroup), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]*infrav1.HostLogRequest{}
	for _, host := range []string{"host-1", "host-2", "host"} {
		requests[host] = logRequest(namespace, host, "admin")
		self := env.As("admin", "system:masters")
		admin, err := client.New(self, client.Options{Scheme: env.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), requests[host]); err != nil {
			t.Fatal(err)
		}
	}
	write := func(host, patch string, subresource bool) error {
		p := client.RawPatch(types.MergePatchType, []byte(patch))
		if subresource {
			return agent.Status().Patch(t.Context(), requests[host].DeepCopy(), p)
		}
		return agent.Patch(t.Context(), requests[host].DeepCopy(), p)
	}
	const answer = `{"status":{"text":"a\n","firstLine":1}}`
	poll.Until(t, "the API server learns of the right", func() error { return write("host-1", answer, true) })
	for _, tc := range []struct {
		what, host, patch string
		status            bool
		want              string
	}{
		{"another host", "host-2", answer, true, "may answer only requests for its own host"},
		{"a host with a name that begins alike", "host", answer, true, "may answer only requests for its own host"},
		{"metadata", "host-1", `{"metadata":{"finalizers":["a.b/c"]}}`, false, "an agent may change only the status"},
		{"time of the right", "host-1", `{"status":{"grantedTime":"2026-01-01T00:00:00Z"}}`, true, "status.grantedTime: "},
		{"long text", "host-1", `{"status":{"text":"` + strings.Repeat("a", infrav1.HostLogMaxText+1) + `"}}`, true, "status.text: Too long"},
		{"completion", "host-1", `{"status":{"completionTime":"2026-01-01T00:00:00Z"}}`, true, ""},
		{"after completion", "host-1", answer, true, "status.completionTime: "},
	} {
		if err := write(tc.host, tc.patch, tc.status); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %.300v, want %q", tc.what, err, tc.want)
		}
	}
	if err := agent.Create(t.Context(), logRequest(namespace, "host-1", user)); err == nil || !strings.Contains(err.Error(), "an agent may not request logs") {
		t.Errorf("a request of an agent: %v", err)
	}
}
