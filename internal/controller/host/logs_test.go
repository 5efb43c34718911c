package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// logsOf reconciles the requests for the logs of a host, and returns when it is due again.
func (w *world) logsOf(host string) time.Duration {
	w.t.Helper()
	r := &hostcontroller.LogReconciler{Client: managed, APIReader: managed, Recorder: &events.FakeRecorder{Events: w.events}, Clock: w.clock}
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: host}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (w *world) requestLog(host, name string) *infrav1.HostLogRequest {
	w.t.Helper()
	request := &infrav1.HostLogRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	request.Spec = infrav1.HostLogRequestSpec{HostName: host, Unit: infrav1.HostLogKubelet, RequestedBy: "ann", TimeLimitSeconds: 100}
	if err := env.Client.Create(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
	return request
}

// granted are the requests that the agent of a host may answer, by its Role, as which the Host names them.
func (w *world) granted(agent *testenv.Agent) []string {
	w.t.Helper()
	named := agent.Host(w.t).Annotations[infrav1.LogRequestsAnnotation]
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.LogRoleName(agent.Key.Name)}
	if err := env.Client.Get(w.t.Context(), key, role); apierrors.IsNotFound(err) {
		if named != "" {
			w.t.Errorf("the Host names %s", named)
		}
		return nil
	} else if err != nil {
		w.t.Fatal(err)
	}
	if err := env.Client.Get(w.t.Context(), key, binding); err != nil {
		w.t.Fatal(err)
	}
	h := agent.Host(w.t)
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != infrav1.AgentUser(h.Namespace, h.Name, h.Spec.HostID) {
		w.t.Errorf("subjects %+v", binding.Subjects)
	}
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) == 0 || !slices.Equal(rule.ResourceNames, role.Rules[0].ResourceNames) {
			w.t.Errorf("rules %+v", role.Rules)
		}
	}
	if named != strings.Join(role.Rules[0].ResourceNames, ",") {
		w.t.Errorf("the Host names %s, the Role %v", named, role.Rules[0].ResourceNames)
	}
	return role.Rules[0].ResourceNames
}

// The agent of a host gets the right to four requests for its own host, by name, and loses it with the end
// of each. A request that is complete, that nobody answers, or whose host does not exist, goes after some minutes.
func TestLogRequests(t *testing.T) {
	w := newWorld(t)
	agent, other := w.host("host-1"), w.host("host-2")
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("host-1-%d", i))
		w.requestLog("host-1", names[i])
	}
	w.requestLog("host-2", "host-2-other")
	w.requestLog("nowhere", "nowhere-lost")
	w.logsOf("host-1")
	if got := w.granted(agent); !slices.Equal(got, names[:4]) {
		t.Fatalf("granted %v", got)
	}
	if got := w.granted(other); got != nil {
		t.Errorf("granted to another host: %v", got)
	}
	for range 4 {
		if said := <-w.events; !strings.Contains(said, "ann reads the log of the host's kubelet (HostLogRequest host-1-") {
			t.Errorf("event %q", said)
		}
	}
	w.logsOf("host-1")
	if len(w.events) > 0 {
		t.Errorf("another event %q", <-w.events)
	}
	get := func(name string) *infrav1.HostLogRequest {
		q := &infrav1.HostLogRequest{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, q); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			t.Fatal(err)
		}
		return q
	}
	// An agent completes one, in a year far away: it goes all the same.
	done := get("host-1-0")
	done.Status.FirstLine, done.Status.Text, done.Status.CompletionTime = 1, "a\n", ptr.To(metav1.NewTime(w.clock.Now().AddDate(1000, 0, 0)))
	if err := env.Client.Status().Update(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), get("host-1-1")); err != nil {
		t.Fatal(err)
	}
	w.logsOf("host-1")
	if got := w.granted(agent); !slices.Equal(got, names[2:]) {
		t.Errorf("granted %v after two ended", got)
	}
	if again := get("host-1-0"); again.Status.Text != "a\n" {
		t.Errorf("the answer is lost: %+v", again.Status)
	}
	w.logsOf("nowhere")
	if lost := get("nowhere-lost"); lost.Status.CompletionTime == nil || !strings.Contains(lost.Status.Message, "has no Host nowhere") {
		t.Errorf("status of a request for no host: %+v", lost.Status)
	}
	w.clock.SetTime(w.clock.Now().Add(116 * time.Second))
	if next := w.logsOf("host-1"); next <= 0 {
		t.Errorf("due again after %s", next)
	}
	if got := w.granted(agent); got != nil {
		t.Errorf("granted %v after the time limit", got)
	}
	if q := get("host-1-2"); q.Status.CompletionTime == nil || !strings.Contains(q.Status.Message, "did not answer within 1m55s") {
		t.Errorf("status of one that was not answered: %+v", q.Status)
	}
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.logsOf("host-1")
	w.logsOf("nowhere")
	for _, name := range append(names, "nowhere-lost") {
		if q := get(name); q != nil {
			t.Errorf("%s stays: %+v", name, q.Status)
		}
	}
}

// A request that finds no turn says so, and one whose Host goes loses its agent's rights.
func TestLogRequestsWait(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	for i := range 5 {
		q := w.requestLog("host-1", fmt.Sprintf("host-1-%d", i))
		if i < 4 {
			q.Status.GrantedTime = ptr.To(metav1.NewTime(w.clock.Now().Add(time.Hour))) // they last
			if err := env.Client.Status().Update(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.clock.SetTime(w.clock.Now().Add(5*time.Minute + time.Second))
	w.logsOf("host-1")
	if got := w.granted(agent); len(got) != 4 {
		t.Errorf("granted %v", got)
	}
	q := &infrav1.HostLogRequest{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "host-1-4"}, q); err != nil || !strings.Contains(q.Status.Message, "answered 4 other requests for 5m0s") {
		t.Errorf("%v, %+v", err, q.Status)
	}
}

// By the rights that the manager gives, an agent reads and answers the requests for its host, and no others.
func TestAgentsAnswerTheirRequestsAlone(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	w.host("host-2")
	mine, other := w.requestLog("host-1", "host-1-mine"), w.requestLog("host-2", "host-2-other")
	w.logsOf("host-1")
	w.logsOf("host-2")
	h := agent.Host(t)
	c, err := client.New(env.As(infrav1.AgentUser(h.Namespace, h.Name, h.Spec.HostID), infrav1.AgentGroup), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	answer := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"text":"a\n","firstLine":1}}`))
	poll.Until(t, "the API server learns of the right", func() error { return c.Status().Patch(t.Context(), mine, answer) })
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(mine), mine); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"read another": c.Get(t.Context(), client.ObjectKeyFromObject(other), other), "answer another": c.Status().Patch(t.Context(), other, answer),
		"list": c.List(t.Context(), &infrav1.HostLogRequestList{}, client.InNamespace(w.namespace)), "delete": c.Delete(t.Context(), mine),
		"change": c.Patch(t.Context(), mine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))),
		"request": c.Create(t.Context(), &infrav1.HostLogRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "host-2-new"}, Spec: infrav1.HostLogRequestSpec{
			HostName: "host-2", Unit: infrav1.HostLogAgent, RequestedBy: "x",
		}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", what, err)
		}
	}
}
