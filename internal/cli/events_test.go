package cli

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Events are those of Slipway and Cluster API, the newest first, equal ones folded; a text and --warnings leave
// some of them.
func TestEvents(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	begin := metav1.Now()
	event := func(name, group, kind, about, kindOf, reason, message string) {
		create(t, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: group, Kind: kind, Namespace: ns, Name: about},
			Type:           kindOf, Reason: reason, Message: message, LastTimestamp: begin, FirstTimestamp: begin, Count: 1,
		})
	}
	ours := infrav1.GroupVersion.String()
	event("a", ours, "Host", "h1", "Normal", "Claimed", "by a machine")
	event("b", ours, "Host", "h2", "Warning", "ResetFailed", "disk is\nbusy\x1b[2J")
	event("c", ours, "Host", "h2", "Warning", "ResetFailed", "disk is\nbusy\x1b[2J")
	event("d", "v1", "Pod", "p", "Normal", "Scheduled", "nothing of ours")
	get := func(args ...string) []eventRow {
		t.Helper()
		out, err := run(t, append([]string{"events", "-n", ns, "--kubeconfig", kubeconfig, "-o", "json"}, args...)...)
		var rows []eventRow
		if jsonErr := json.Unmarshal([]byte(out), &rows); err != nil || jsonErr != nil {
			t.Fatalf("%v, %v\n%s", err, jsonErr, out)
		}
		return rows
	}
	if rows := get(); len(rows) != 2 {
		t.Errorf("%+v", rows)
	}
	for _, args := range [][]string{{"h2"}, {"--warnings"}, {"resetfailed"}} {
		if rows := get(args...); len(rows) != 1 || rows[0].Name != "h2" || rows[0].Count != 2 || rows[0].Type != "Warning" {
			t.Errorf("%v: %+v", args, rows)
		}
	}
	out, err := run(t, "events", "-n", ns, "--kubeconfig", kubeconfig, "h2")
	if err != nil || !strings.HasPrefix(out, "AGE  TYPE     NAMESPACE") || !strings.Contains(out, "Host/h2") || !strings.Contains(out, "ResetFailed  2      disk is busy^[[2J") {
		t.Errorf("%v\n%s", err, out)
	}
}
