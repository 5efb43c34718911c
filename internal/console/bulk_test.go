package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// What is requested of several hosts is done to each of them for which it makes sense, as it was looked at,
// and what happens to one does not keep the others from it.
func TestActionsOnSeveralHosts(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	testenv.NewHost(t, env.Client, namespace, "host-3", time.Now(), func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) })
	c := start(t, "", namespace)
	cordoned := func(name string) bool {
		return ptr.Deref(current[infrav1.Host](t, namespace, name).Spec.Unschedulable, false)
	}
	want(t, "the hosts", c.page(t, "/hosts"), `<button name="action" value="cordon">`, `form="bulk" name="host" value="`+namespace+`/host-2"`)
	page := func(action string, hosts ...string) string {
		query := url.Values{"action": {action}}
		for _, h := range hosts {
			query.Add("host", namespace+"/"+h)
		}
		return "/hosts/do?" + query.Encode()
	}
	path := page("cordon", "host-1", "host-2", "host-3", "nobody")
	text := c.page(t, path)
	want(t, "the form", text, "slipway host cordon host-1 host-2 --reason REASON -n "+namespace, "Cordon 2 hosts", "host-3</a> <small>left out: makes no sense for it now", "nobody</a> <small>left out: ")

	form := c.filled(t, path, map[string]string{"reason": "fans"})
	form["host"] = nil
	for _, field := range hidden.FindAllStringSubmatch(text, -1) {
		if field[1] == "host" {
			form.Add("host", field[2])
		}
	}
	if len(form["host"]) != 2 {
		t.Fatalf("the form has %v", form["host"])
	}
	// Another host has the first one's name by now.
	thief := url.Values{"csrf": form["csrf"], "action": form["action"], "host": {namespace + "/host-1/of-a-thief", form["host"][1]}}
	code, answer := c.requests(t, path, thief)
	if code != http.StatusConflict || !strings.Contains(answer, "another Host has this name now") || cordoned("host-1") || !cordoned("host-2") {
		t.Errorf("answers %d, cordoned %v %v: %.600s", code, cordoned("host-1"), cordoned("host-2"), answer)
	}
	form["host"] = form["host"][:1]
	if code, text := c.requests(t, path, form); code != http.StatusSeeOther || !cordoned("host-1") || current[infrav1.Host](t, namespace, "host-1").Annotations[infrav1.MaintenanceReasonAnnotation] != "fans" {
		t.Errorf("answers %d: %s", code, text)
	}
	for _, path := range []string{page("replace", "host-1"), page("explode", "host-1")} {
		if code, _ := c.get(t, path); code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, code)
		}
	}
	want(t, "nothing", c.page(t, "/hosts/do?action=cordon"), "No host is selected", "disabled>Cordon 0 hosts")
}

// What cannot be undone is confirmed by the number of hosts, and control planes of one cluster are not
// rebooted at the same time.
func TestRebootOfSeveralHosts(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	for _, name := range []string{"cp-1", "cp-2", "w-1"} {
		if name != "cp-1" {
			testenv.NewMachine(t, env.Client, namespace, name, func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}
			})
			testenv.NewHost(t, env.Client, namespace, "of-"+name, time.Now(), inRack("rack-a", name))
		}
		m := current[infrav1.HostMachine](t, namespace, name)
		m.Spec.ClaimID = "claim-of-" + name
		if name != "w-1" {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
		}
		if err := env.Client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, "", namespace)
	reboots := func(name string) int32 {
		return ptr.Deref(current[infrav1.HostMachine](t, namespace, name).Spec.Reboots, 0)
	}
	send := func(confirm string, hosts ...string) (int, string) {
		t.Helper()
		path := "/hosts/do?action=reboot"
		form := url.Values{"action": {"reboot"}, "confirm": {confirm}}
		for _, h := range hosts {
			path += "&host=" + namespace + "/" + h
			form.Add("host", namespace+"/"+h+"/"+string(current[infrav1.Host](t, namespace, h).UID))
		}
		form["csrf"] = c.filled(t, path, nil)["csrf"]
		return c.requests(t, path, form)
	}
	text := c.page(t, "/hosts/do?action=reboot&host="+namespace+"/host-1&host="+namespace+"/of-cp-2")
	want(t, "two control planes", text, "host-1 and of-cp-2 have control planes of cluster c1", "disabled>Reboot 2 hosts")
	for _, tc := range []struct {
		confirm string
		hosts   []string
		code    int
	}{{"2", []string{"host-1", "of-cp-2"}, http.StatusConflict}, {"1", []string{"host-1", "of-w-1"}, http.StatusBadRequest}, {"", []string{"host-1", "of-w-1"}, http.StatusBadRequest}} {
		if code, text := send(tc.confirm, tc.hosts...); code != tc.code || reboots("cp-1")+reboots("cp-2")+reboots("w-1") > 0 {
			t.Errorf("%v confirmed by %q answers %d, want %d: %.500s", tc.hosts, tc.confirm, code, tc.code, text)
		}
	}
	if code, text := send("2", "host-1", "of-w-1"); code != http.StatusSeeOther || reboots("cp-1") != 1 || reboots("w-1") != 1 {
		t.Errorf("answers %d, reboots %d and %d: %s", code, reboots("cp-1"), reboots("w-1"), text)
	}
}
