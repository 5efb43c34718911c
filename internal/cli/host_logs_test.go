package cli

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// answerAs plays the agent: it answers the first request for a host by these statuses, one after the other.
func answerAs(t *testing.T, namespace string, statuses ...infrav1.HostLogRequestStatus) <-chan infrav1.HostLogRequest {
	t.Helper()
	answered := make(chan infrav1.HostLogRequest, 1)
	go func() {
		list := &infrav1.HostLogRequestList{}
		_ = poll.Wait(func() error {
			if err := env.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil || len(list.Items) == 0 {
				return io.EOF
			}
			return nil
		})
		if len(list.Items) == 0 {
			return
		}
		request := list.Items[0]
		answered <- *request.DeepCopy()
		for _, s := range statuses {
			request.Status = s
			if err := env.Client.Status().Update(context.Background(), &request); err != nil {
				t.Error(err)
			}
		}
	}()
	return answered
}

func TestHostLogs(t *testing.T) {
	kubeconfig := as(t, "", "")
	namespace := env.Namespace(t)
	testenv.NewHost(t, env.Client, namespace, "h1", time.Now())
	logs := func(args ...string) (string, error) {
		return run(t, append([]string{"host", "logs", "-n", namespace, "--kubeconfig", kubeconfig}, args...)...)
	}
	now := ptr.To(metav1.Now())
	answered := answerAs(t, namespace, infrav1.HostLogRequestStatus{FirstLine: 1, Text: "one\n"}, infrav1.HostLogRequestStatus{FirstLine: 2, Text: "two\n", CompletionTime: now})
	out, err := logs("h1", "kubelet", "--since", "90s", "--tail", "7")
	if err != nil || !strings.HasSuffix(out, "one\ntwo\n") {
		t.Errorf("%v\n%s", err, out)
	}
	asked := <-answered
	request := asked.Spec
	if word, ok := strings.CutPrefix(asked.Name, "h1-"); !ok || word == "" || strings.Contains(word, "-") {
		t.Errorf("the request is called %s", asked.Name)
	}
	if request.HostName != "h1" || request.Unit != infrav1.HostLogKubelet || request.SinceSeconds != 90 || request.Lines != 7 || request.RequestedBy == "" || request.Follow != nil {
		t.Errorf("requested %+v", request)
	}
	list := &infrav1.HostLogRequestList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) > 0 {
		t.Errorf("%v, the request stays: %+v", err, list.Items)
	}
	answerAs(t, namespace, infrav1.HostLogRequestStatus{CompletionTime: now, Message: "the host has no journalctl"})
	if _, err := logs("h1"); err == nil || err.Error() != "the host has no journalctl" {
		t.Errorf("got %v", err)
	}
	for want, args := range map[string][]string{
		"HOST is missing": {}, `--unit "init": want agent, containerd, kernel, kubelet`: {"h1", "--unit", "init"}, "namespace " + namespace + " has no host h2; see `slipway host list`": {"h2"},
		"--tail 0: want a number from 1 to 5000": {"h1", "--tail", "0"}, "--since -1s: want a positive": {"h1", "--since", "-1s"},
	} {
		if _, err := logs(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	completed, err := run(t, "__complete", "host", "logs", "h1", "--kubeconfig", kubeconfig, "-n", namespace, "")
	if err != nil || !slices.Contains(strings.Fields(completed), "kernel") {
		t.Errorf("%v\n%s", err, completed)
	}
}

// The log of a local host is shown line by line without credentials, also one whose key goes over several writes.
func TestRedactedLines(t *testing.T) {
	var out bytes.Buffer
	r := &redacted{out: &out}
	for _, part := range []string{"one\ntok", "en=abcdef0123456789abcdef0123456789\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\n", "\x1b[2Jlast"} {
		if _, err := r.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "one\n") || !strings.HasSuffix(got, "^[[2Jlast\n") || strings.Contains(got, "abcdef0123") || strings.Contains(got, "MIIabc") {
		t.Errorf("shown: %q", got)
	}
}
