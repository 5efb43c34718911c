package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var hidden = regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`)

// filled is the form of a page with more fields.
func (c *running) filled(t *testing.T, path string, more map[string]string) url.Values {
	t.Helper()
	values := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(c.page(t, path), -1) {
		values.Set(field[1], field[2])
	}
	for name, value := range more {
		values.Set(name, value)
	}
	return values
}

// requests sends a form.
func (c *running) requests(t *testing.T, path string, form url.Values) (int, string) {
	t.Helper()
	code, text, _ := c.as(t, http.MethodPost, path, form.Encode(), same)
	return code, text
}

func current[T any, P interface {
	*T
	client.Object
}](t *testing.T, namespace, name string) P {
	t.Helper()
	o := P(new(T))
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// What a form requests is done to the object that was looked at, is recorded with its reason, and what
// cannot be undone is asked for twice.
func TestActionsOnAHost(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	machine := current[infrav1.HostMachine](t, namespace, "cp-1")
	machine.Spec.ClaimID = "claim-of-cp-1"
	if err := env.Client.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	c := start(t, "", namespace)
	host := func(name string) *infrav1.Host { return current[infrav1.Host](t, namespace, name) }
	page := "/hosts/" + namespace + "/host-2"
	want(t, "the host", c.page(t, page), `href="`+page+`/do/cordon"`, `href="`+page+`/do/evacuate"`)
	if text := c.page(t, page); strings.Contains(text, "/do/reboot") || strings.Contains(text, "/do/clear-quarantine") || strings.Contains(text, "/do/uncordon") {
		t.Errorf("a free host can be rebooted, cleared or uncordoned:\n%s", text)
	}
	cordon := page + "/do/cordon"
	want(t, "the form", c.page(t, cordon), "slipway host cordon host-2 --reason REASON -n "+namespace, "Cordon Host host-2")

	good := c.filled(t, cordon, map[string]string{"reason": " fan\nto be\treplaced "})
	for name, bad := range map[string]struct {
		path   string
		change func(url.Values)
		want   int
	}{
		"another object": {cordon, func(v url.Values) { v.Set("uid", "of-a-thief") }, http.StatusConflict},
		"no object":      {cordon, func(v url.Values) { v.Del("uid") }, http.StatusConflict},
		"no token":       {cordon, func(v url.Values) { v.Del("csrf") }, http.StatusForbidden},
		"no sense":       {page + "/do/uncordon", func(url.Values) {}, http.StatusConflict},
		"no such action": {page + "/do/explode", func(url.Values) {}, http.StatusNotFound},
		"no such host":   {"/hosts/" + namespace + "/nobody/do/cordon", func(url.Values) {}, http.StatusNotFound},
	} {
		form := maps.Clone(good)
		bad.change(form)
		if code, text := c.requests(t, bad.path, form); code != bad.want || ptr.Deref(host("host-2").Spec.Unschedulable, false) {
			t.Errorf("%s answers %d, want %d: %.500s", name, code, bad.want, text)
		}
	}
	if code, text := c.requests(t, cordon, good); code != http.StatusSeeOther {
		t.Fatalf("answers %d: %s", code, text)
	}
	if h := host("host-2"); !ptr.Deref(h.Spec.Unschedulable, false) || h.Annotations[infrav1.MaintenanceReasonAnnotation] != "fan to be replaced" {
		t.Errorf("%+v, %v", h.Spec, h.Annotations)
	}
	poll.True(t, "the host has what was requested, and by whom", func() bool {
		text := c.page(t, page)
		return strings.Contains(text, "Cordon requested by ") && strings.Contains(text, ": fan to be replaced") && strings.Contains(text, `href="`+page+`/do/uncordon"`)
	})

	// A reboot ends what runs there.
	reboot := "/hosts/" + namespace + "/host-1/do/reboot"
	reboots := func() int32 { return ptr.Deref(current[infrav1.HostMachine](t, namespace, "cp-1").Spec.Reboots, 0) }
	want(t, "the form of a reboot", c.page(t, reboot), "This cannot be undone", "slipway host reboot host-1 --reason REASON -n "+namespace)
	for _, confirm := range []string{"", "host-2"} {
		if code, text := c.requests(t, reboot, c.filled(t, reboot, map[string]string{"confirm": confirm})); code != http.StatusBadRequest || reboots() != 0 {
			t.Errorf("confirmed by %q it answers %d: %.500s", confirm, code, text)
		}
	}
	if code, text := c.requests(t, reboot, c.filled(t, reboot, map[string]string{"confirm": "host-1"})); code != http.StatusSeeOther || reboots() != 1 {
		t.Errorf("answers %d, %d reboots: %s", code, reboots(), text)
	}
	// Nobody would make this machine again.
	replace := "/hosts/" + namespace + "/host-1/do/replace"
	if code, text := c.requests(t, replace, c.filled(t, replace, map[string]string{"confirm": "host-1"})); code < 400 || !strings.Contains(text, "owner") {
		t.Errorf("answers %d: %s", code, text)
	}
}

// A button that the user has no right for says which is missing, and the form is refused.
func TestActionsTakeTheRightsOfTheUser(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	user := "looker-of-" + namespace
	all := rule("*", "*")
	all.APIGroups, all.Verbs = []string{"*"}, []string{"get", "list", "watch"}
	grant(t, user, namespace, all)
	c := start(t, user, namespace)
	page := "/hosts/" + namespace + "/host-2"
	want(t, "the host", c.page(t, page), "<small>lacks patch hosts</small>")
	if text := c.page(t, page); strings.Contains(text, `href="`+page+`/do/`) {
		t.Errorf("buttons without rights:\n%s", text)
	}
	want(t, "the form", c.page(t, page+"/do/cordon"), "You lack the rights: patch hosts.", `<button type="submit" disabled>`)
	code, text := c.requests(t, page+"/do/cordon", c.filled(t, page+"/do/cordon", nil))
	if code != http.StatusForbidden || ptr.Deref(current[infrav1.Host](t, namespace, "host-2").Spec.Unschedulable, false) {
		t.Errorf("answers %d", code)
	}
	want(t, "the answer", text, `cannot patch resource &#34;hosts&#34;`, user)

	// Who may patch hosts and create no events leaves a reason on the host alone.
	mayPatch := "operator-of-" + namespace
	grant(t, mayPatch, namespace, all)
	grant(t, mayPatch, namespace, rule("patch", "hosts"))
	c = start(t, mayPatch, namespace)
	if code, text := c.requests(t, page+"/do/cordon", c.filled(t, page+"/do/cordon", map[string]string{"reason": "fan"})); code != http.StatusSeeOther || current[infrav1.Host](t, namespace, "host-2").Annotations[infrav1.MaintenanceReasonAnnotation] != "fan" {
		t.Errorf("answers %d: %s", code, text)
	}
	events := &corev1.EventList{}
	if err := env.Client.List(t.Context(), events, client.InNamespace(namespace)); err != nil || len(events.Items) > 0 {
		t.Errorf("%d events, %v", len(events.Items), err)
	}
}

func TestActionsOnACluster(t *testing.T) {
	namespace := env0(t)
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c2"}}
	object.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.3", ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(int32(1))},
		Workers: clusterv1.WorkersTopology{MachinePools: []clusterv1.MachinePoolTopology{{Class: "w", Name: "pool", Replicas: ptr.To(int32(3))}}},
	}
	create(t, object)
	c := start(t, "", namespace)
	page := "/clusters/" + namespace + "/c2"
	now := func() *clusterv1.Cluster { return current[clusterv1.Cluster](t, namespace, "c2") }
	pool := func() int32 { return *now().Spec.Topology.Workers.MachinePools[0].Replicas }
	send := func(action string, fields map[string]string) (int, string) {
		t.Helper()
		return c.requests(t, page+"/do/"+action, c.filled(t, page+"/do/"+action, fields))
	}
	want(t, "the cluster", c.page(t, page), `/do/scale"`, `/do/upgrade"`, `/do/pause"`, "slipway kubeconfig c2 -n "+namespace)
	want(t, "the form", c.page(t, page+"/do/scale"), "<option>pool</option>", "<option>control plane</option>")
	for _, tc := range []struct {
		action string
		fields map[string]string
		code   int
		pool   int32
	}{
		{"scale", map[string]string{"group": "pool", "replicas": "5"}, http.StatusSeeOther, 5},
		{"scale", map[string]string{"group": "pool", "replicas": "2"}, http.StatusBadRequest, 5},
		{"scale", map[string]string{"group": "pool", "replicas": "2", "confirm": "c2"}, http.StatusSeeOther, 2},
		{"scale", map[string]string{"group": "pool", "replicas": "many"}, http.StatusBadRequest, 2},
		{"scale", map[string]string{"group": "none", "replicas": "2"}, http.StatusBadRequest, 2},
		{"scale", map[string]string{"group": "control plane", "replicas": "2"}, http.StatusBadRequest, 2},
		{"scale", map[string]string{"group": "control plane", "replicas": "3"}, http.StatusSeeOther, 2},
		{"upgrade", map[string]string{"version": "v1.36.4"}, http.StatusBadRequest, 2},
		{"upgrade", map[string]string{"version": "v1.36.2", "confirm": "c2"}, http.StatusBadRequest, 2},
		{"upgrade", map[string]string{"version": "v1.36.4", "confirm": "c2"}, http.StatusSeeOther, 2},
		{"pause", nil, http.StatusSeeOther, 2},
	} {
		if code, text := send(tc.action, tc.fields); code != tc.code || pool() != tc.pool {
			t.Errorf("%s %v answers %d, want %d; the pool has %d: %.600s", tc.action, tc.fields, code, tc.code, pool(), text)
		}
	}
	if got := now().Spec; *got.Topology.ControlPlane.Replicas != 3 || got.Topology.Version != "v1.36.4" || !ptr.Deref(got.Paused, false) {
		t.Errorf("%+v", got)
	}
	poll.True(t, "a cluster that is paused can be resumed", func() bool { return strings.Contains(c.page(t, page), `/do/resume"`) })
	if code, text := send("resume", nil); code != http.StatusSeeOther || ptr.Deref(now().Spec.Paused, false) {
		t.Errorf("answers %d: %s", code, text)
	}
}

// A kubeconfig is a file for who may read its Secret, and the cluster has who requested it.
func TestKubeconfigOfACluster(t *testing.T) {
	namespace := env0(t)
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c2"}}
	object.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.3"}
	create(t, object)
	page := "/clusters/" + namespace + "/c2"
	form := page + "/do/kubeconfig"
	c := start(t, "", namespace)
	if text := c.page(t, page); strings.Contains(text, `href="`+form+`"`) {
		t.Errorf("a cluster without a control plane has a kubeconfig:\n%s", text)
	}
	object.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the cluster has a kubeconfig", func() bool { return strings.Contains(c.page(t, page), `href="`+form+`"`) })
	want(t, "the form", c.page(t, form), "slipway kubeconfig c2 --merge -n "+namespace)
	code, text, header := c.as(t, http.MethodPost, form, c.filled(t, form, map[string]string{"reason": "look"}).Encode(), same)
	if code != http.StatusOK || text != "kubeconfig of "+namespace+"/c2" || header.Get("Content-Disposition") != "attachment; filename=c2.kubeconfig" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("answers %d %v: %s", code, header, text)
	}
	poll.True(t, "an event has who requested it", func() bool { return strings.Contains(c.page(t, "/activity"), "Kubeconfig requested by ") })

	user := "looker-of-" + namespace
	all := rule("*", "*")
	all.APIGroups, all.Verbs, all.Resources = []string{"*"}, []string{"get", "list", "watch"}, []string{"clusters", "hosts", "machines"}
	grant(t, user, namespace, all)
	want(t, "the cluster", start(t, user, namespace).page(t, page), "<small>lacks get secrets</small>")
}

// A Cluster is shown as it is, without who wrote which field.
func TestClusterAsYAML(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	text := start(t, "", namespace).page(t, "/clusters/"+namespace+"/c1/yaml")
	want(t, "the object", text, "apiVersion: "+clusterv1.GroupVersion.String(), "kind: Cluster", "namespace: "+namespace, "kubectl get cluster c1 -n "+namespace+" -o yaml")
	if strings.Contains(text, "managedFields") {
		t.Errorf("it has managed fields:\n%s", text)
	}
}

// The log of a step's Jobs is shown to who may list Secrets, and tells others what they lack.
func TestLogOfAJob(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	create(t, &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run-2"}, Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: testenv.ClusterName, PolicyName: "p", PolicyGeneration: 1, Hook: lifecyclev1.BeforeClusterUpgrade, Mode: lifecyclev1.ModeEnforce, Attempt: 1,
		Steps: []lifecyclev1.Step{{Name: "smoke", Job: &lifecyclev1.JobStep{Spec: runtime.RawExtension{Raw: []byte(`{"template":{}}`)}}}},
	}})
	run := "/runs/" + namespace + "/run-2"
	log := run + "/steps/smoke/log"
	c := start(t, "", namespace)
	want(t, "the run", c.page(t, run), `href="`+log+`"`)
	want(t, "a log that there is not", c.page(t, log), "no logs of step smoke are kept")
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logs-of-smoke", Labels: map[string]string{lifecyclev1.RunLabel: "run-2", lifecyclev1.StepLabel: "smoke"}},
		Data:       map[string][]byte{"smoke-1": []byte("all <well>\x1b[31m\n")},
	})
	want(t, "the log", c.page(t, log), "logs-of-smoke/smoke-1", "all &lt;well&gt;^[[31m", "slipway lifecycle logs run-2 smoke -n "+namespace)

	user := "looker-of-" + namespace
	all := rule("*", "*")
	all.APIGroups, all.Verbs, all.Resources = []string{"*"}, []string{"get", "list", "watch"}, []string{"lifecycleruns", "clusters"}
	grant(t, user, namespace, all)
	if text := start(t, user, namespace).page(t, log); strings.Contains(text, "well") || !strings.Contains(text, "secrets is forbidden") {
		t.Errorf("without the right it shows:\n%s", text)
	}
}
