package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

func logRequests(t *testing.T, namespace string) []infrav1.HostLogRequest {
	t.Helper()
	list := &infrav1.HostLogRequestList{}
	if err := env.Client.List(context.WithoutCancel(t.Context()), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func answerLog(t *testing.T, request *infrav1.HostLogRequest, status infrav1.HostLogRequestStatus) {
	t.Helper()
	request.Status = status
	if err := env.Client.Status().Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// A log is read by the agent as `slipway host logs` has it read, shows while it comes, and its request goes
// when it is complete, when another one takes its place, when it is stopped and when the console ends.
func TestLogsOfAHost(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	c := start(t, "", namespace)
	page := "/hosts/" + namespace + "/host-1/logs"
	want(t, "the host", c.page(t, "/hosts/"+namespace+"/host-1"), `href="`+page+`"`)
	want(t, "the form", c.page(t, page+"?unit=Kubelet&since=10m&follow=1"), "<option selected>Kubelet</option>", "slipway host logs host-1 kubelet --tail 1000 --since 10m -f -n "+namespace)
	read := func(fields map[string]string) *infrav1.HostLogRequest {
		t.Helper()
		if code, text := c.requests(t, page, c.filled(t, page, fields)); code != http.StatusSeeOther {
			t.Fatalf("answers %d: %s", code, text)
		}
		var found *infrav1.HostLogRequest
		// The former one goes.
		poll.True(t, "there is one request", func() bool {
			all := logRequests(t, namespace)
			if len(all) == 1 {
				found = &all[0]
			}
			return len(all) == 1
		})
		return found
	}
	shows := func(texts ...string) {
		t.Helper()
		poll.True(t, "the page shows "+strings.Join(texts, ", "), func() bool {
			text := c.page(t, page)
			for _, s := range texts {
				if !strings.Contains(text, s) {
					return false
				}
			}
			return true
		})
	}
	gone := func() {
		t.Helper()
		poll.True(t, "the request is gone", func() bool { return len(logRequests(t, namespace)) == 0 })
	}

	request := read(map[string]string{"unit": "Kubelet", "since": "10m"})
	if s := request.Spec; s.HostName != "host-1" || s.Unit != infrav1.HostLogKubelet || s.SinceSeconds != 600 || s.Lines != 1000 || s.Follow != nil || s.RequestedBy == "" {
		t.Errorf("requested %+v", s)
	}
	shows("waits")
	answerLog(t, request, infrav1.HostLogRequestStatus{FirstLine: 1, Text: "one <b>\n"})
	shows("one &lt;b&gt;\n</pre>", "Stop")
	answerLog(t, request, infrav1.HostLogRequestStatus{FirstLine: 5, Text: "five\x1b\n", CompletionTime: ptr.To(metav1.Now()), Message: "the time is over"})
	shows("five^[\n</pre>", "3 lines are missing", "The log ends: the time is over.")
	if text := c.page(t, page); strings.Contains(text, "Stop</button>") {
		t.Error("a log that has ended can be stopped")
	}
	gone()

	request = read(map[string]string{"unit": "Kernel", "follow": "1"})
	if !ptr.Deref(request.Spec.Follow, false) || request.Spec.TimeLimitSeconds != infrav1.HostLogMaxTimeLimit {
		t.Errorf("requested %+v", request.Spec)
	}
	var many strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&many, "line %d\n", i+1)
	}
	answerLog(t, request, infrav1.HostLogRequestStatus{FirstLine: 1, Text: many.String()})
	shows("line 1200", "follows")
	if text := c.page(t, page); strings.Contains(text, "line 200\n") || !strings.Contains(text, "line 201\n") {
		t.Error("the page has not the last 1000 lines")
	}
	if code, _ := c.requests(t, page, c.filled(t, page, map[string]string{"stop": "1"})); code != http.StatusSeeOther {
		t.Errorf("to stop answers %d", code)
	}
	gone()

	request = read(map[string]string{"unit": "Agent"})
	answerLog(t, request, infrav1.HostLogRequestStatus{CompletionTime: ptr.To(metav1.Now()), Message: "the host has no journalctl"})
	shows("the host has no journalctl")
	first := read(map[string]string{"unit": "Agent"})
	if second := read(map[string]string{"unit": "Agent"}); second.UID == first.UID {
		t.Error("the former request stays")
	}
	for name, fields := range map[string]map[string]string{"a unit": {"unit": "sshd"}, "a time": {"unit": "Agent", "since": "soon"}} {
		if code, text := c.requests(t, page, c.filled(t, page, fields)); code != http.StatusBadRequest {
			t.Errorf("%s that is none answers %d: %s", name, code, text)
		}
	}
	c.stop()
	gone()

	// The rights are those of the command.
	user := "looker-of-" + namespace
	grant(t, user, namespace, rule("get", "hosts"), rule("list", "hosts"), rule("watch", "hosts"))
	c = start(t, user, namespace)
	want(t, "the form", c.page(t, page), "You lack the rights: create hostlogrequests, watch hostlogrequests, delete hostlogrequests.", `disabled>Read`)
	if code, _ := c.requests(t, page, c.filled(t, page, map[string]string{"unit": "Agent"})); code != http.StatusForbidden || len(logRequests(t, namespace)) > 0 {
		t.Errorf("without the right it answers %d", code)
	}
}
