package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// as sends a request with the session, changed by a test.
func (c *running) as(t *testing.T, method, path, body string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	change(r)
	return send(t, c.Client, r)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func same(*http.Request) {}

// env0 is a namespace of its own; it skips without an API server.
func env0(t *testing.T) string {
	t.Helper()
	testenv.Skip(t)
	return env.Namespace(t)
}

var inline = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|(src|href|action)="(https?:)?//`)

func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	waits(t, namespace)
	c := start(t, "", namespace)
	for _, path := range []string{
		"/hosts", "/hosts/" + namespace + "/host-1", "/clusters", "/clusters/" + namespace + "/c1", "/activity", "/find?q=host", "/hosts/" + namespace + "/host-2/approve", "/hosts/" + namespace + "/host-1/do/reboot", "/clusters/" + namespace + "/c1/do/pause", "/", "/hosts?racks=1", "/hosts/do?action=cordon&host=" + namespace + "/host-2", "/hosts/" + namespace + "/host-1/logs", "/versions", "/nothing", "/decisions", "/runs/" + namespace + "/run-1",
		"/runs/" + namespace + "/run-1/decide?decision=Skip&step=go",
	} {
		code, text, headers := c.as(t, http.MethodGet, path, "", same)
		if found := inline.FindString(text); code != http.StatusOK && path != "/nothing" || found != "" {
			t.Errorf("%s answers %d with %q", path, code, found)
		}
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		} {
			if headers.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, headers.Get(name))
			}
		}
	}
}

var csrf = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// form is the decision page of a run, filled in.
func (c *running) form(t *testing.T, path string, fields url.Values) string {
	t.Helper()
	found := csrf.FindStringSubmatch(c.page(t, path))
	if found == nil {
		t.Fatalf("%s has no form", path)
	}
	fields.Set("csrf", found[1])
	return fields.Encode()
}

func annotated(t *testing.T, namespace string) bool {
	t.Helper()
	run := &lifecyclev1.LifecycleRun{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "run-1"}, run); err != nil {
		t.Fatal(err)
	}
	return len(run.Annotations) > 0 || len(run.Spec.Decisions) > 0
}

func TestChangesAreMeant(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	waits(t, namespace)
	c := start(t, "", namespace)
	path := "/runs/" + namespace + "/run-1/decide"
	fields := func() url.Values {
		return url.Values{"decision": {"Approve"}, "step": {"go"}, "reason": {"looked at it"}}
	}
	good := c.form(t, path+"?decision=Approve&step=go", fields())
	for name, tc := range map[string]struct {
		method, body string
		change       func(*http.Request)
		want         int
	}{
		"GET":                {http.MethodGet, good, same, http.StatusOK},
		"GET with a query":   {http.MethodGet, "", func(r *http.Request) { r.URL.RawQuery = good }, http.StatusOK},
		"PUT":                {http.MethodPut, good, same, http.StatusMethodNotAllowed},
		"no token":           {http.MethodPost, fields().Encode(), same, http.StatusForbidden},
		"token in the query": {http.MethodPost, fields().Encode(), func(r *http.Request) { r.URL.RawQuery = good }, http.StatusForbidden},
		"another token":      {http.MethodPost, fields().Encode() + "&csrf=guess", same, http.StatusForbidden},
		"another site":       {http.MethodPost, good, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another origin":     {http.MethodPost, good, header("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
		"another name":       {http.MethodPost, good, func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"too much":           {http.MethodPost, good + "&x=" + strings.Repeat("x", 64<<10), same, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			if code, text, _ := c.as(t, tc.method, path, tc.body, tc.change); code != tc.want {
				t.Errorf("answers %d, want %d: %.300s", code, tc.want, text)
			}
			if annotated(t, namespace) {
				t.Fatal("it changed the run")
			}
		})
	}
	stranger := &running{Client: browser(t), base: c.base}
	if code, _, _ := stranger.as(t, http.MethodPost, path, good, same); code != http.StatusUnauthorized || annotated(t, namespace) {
		t.Errorf("without the session it answers %d", code)
	}
	for name, bad := range map[string]url.Values{
		"no decision": {"decision": {"Delete"}, "step": {"go"}, "reason": {"x"}},
		"no reason":   {"decision": {"Skip"}, "step": {"go"}, "reason": {"  "}},
		"no step":     {"decision": {"Approve"}, "step": {"gone"}},
	} {
		if code, text, _ := c.as(t, http.MethodPost, path, c.form(t, path, bad), same); (code != http.StatusBadRequest && code != http.StatusNotFound) || annotated(t, namespace) {
			t.Errorf("%s: answers %d: %s", name, code, text)
		}
	}
	// What is meant is written. Here is no webhook that makes a decision of it, which the
	// page tells.
	code, text, _ := c.as(t, http.MethodPost, path, good, header("Origin", c.base))
	want(t, "the answer", text, "the webhook of slipway-lifecycle was not called")
	run := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run-1"}}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(run), run); err != nil {
		t.Fatal(err)
	}
	if got := run.Annotations[lifecyclev1.ApproveAnnotation]; code != http.StatusBadGateway || got != "go: looked at it" {
		t.Errorf("answers %d, the run is annotated %q", code, got)
	}
}

// Who may not change a run is told so by the API server, and nothing happens.
func TestChangesTakeTheRightsOfTheUser(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	waits(t, namespace)
	user := "reader-of-" + namespace
	all := rule("*", "*")
	all.APIGroups, all.Verbs = []string{"*"}, []string{"get", "list", "watch"}
	grant(t, user, namespace, all)
	c := start(t, user, namespace)
	path := "/runs/" + namespace + "/run-1/decide"
	body := c.form(t, path+"?decision=Approve&step=go", url.Values{"decision": {"Approve"}, "step": {"go"}})
	code, text, _ := c.as(t, http.MethodPost, path, body, same)
	if code != http.StatusForbidden || annotated(t, namespace) {
		t.Errorf("answers %d", code)
	}
	want(t, "the answer", text, `cannot patch resource &#34;lifecycleruns&#34;`, user)
}

// A machine is approved by who looked at it, with the user's own rights, and no other one that
// has its name by then.
func TestAHostIsApproved(t *testing.T) {
	namespace := env0(t)
	testenv.NewHost(t, env.Client, namespace, "new", time.Now(), func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending })
	path := "/hosts/" + namespace + "/new/approve"
	approval := func() infrav1.HostApproval {
		h := &infrav1.Host{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "new"}, h); err != nil {
			t.Fatal(err)
		}
		return h.Spec.Approval
	}
	fields := func(text string) url.Values {
		values := url.Values{}
		for _, field := range regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			values.Set(field[1], field[2])
		}
		return values
	}
	user := "looker-of-" + namespace
	grant(t, user, namespace, rule("list", "hosts"), rule("watch", "hosts"), rule("get", "hosts"))
	looker := start(t, user, namespace)
	code, text, _ := looker.as(t, http.MethodPost, path, fields(looker.page(t, path)).Encode(), same)
	if code != http.StatusForbidden || approval() != infrav1.HostApprovalPending {
		t.Errorf("who may only look is answered %d", code)
	}
	want(t, "the answer", text, `cannot patch resource &#34;hosts&#34;`, user)

	c := start(t, "", namespace)
	want(t, "the host", c.page(t, "/hosts/"+namespace+"/new"), `href="`+path+`"`)
	good := fields(c.page(t, path))
	for name, change := range map[string]func(url.Values){
		"another machine":   func(v url.Values) { v.Set("hostID", "of-a-thief") },
		"another Host":      func(v url.Values) { v.Set("uid", "of-a-thief") },
		"another inventory": func(v url.Values) { v.Set("machineID", "of-a-thief") },
		"no machine":        func(v url.Values) { v.Del("uid") },
		"another decision":  func(v url.Values) { v.Set("approval", "Denied") },
		"no decision":       func(v url.Values) { v.Del("approval") },
		"no token":          func(v url.Values) { v.Del("csrf") },
	} {
		bad := maps.Clone(good)
		change(bad)
		if code, _, _ := c.as(t, http.MethodPost, path, bad.Encode(), same); code < 400 || approval() != infrav1.HostApprovalPending {
			t.Errorf("%s is answered %d, the host is %s", name, code, approval())
		}
	}
	if code, _, _ := c.as(t, http.MethodGet, path, good.Encode(), func(r *http.Request) { r.URL.RawQuery = good.Encode() }); code != http.StatusOK || approval() != infrav1.HostApprovalPending {
		t.Errorf("GET is answered %d, the host is %s", code, approval())
	}
	decide := func(approval infrav1.HostApproval) {
		t.Helper()
		h := &infrav1.Host{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "new"}, h); err != nil {
			t.Fatal(err)
		}
		h.Spec.Approval = approval
		if err := env.Client.Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	// Somebody denies it between the look and the click.
	decide(infrav1.HostApprovalDenied)
	code, text, _ = c.as(t, http.MethodPost, path, good.Encode(), same)
	if code != http.StatusConflict || approval() != infrav1.HostApprovalDenied {
		t.Errorf("against a denial it is answered %d, the host is %s", code, approval())
	}
	want(t, "the answer", text, "it is Denied by now, and was Pending when you looked at it")
	poll.True(t, "the page tells of the denial", func() bool {
		good = fields(c.page(t, path))
		return good.Get("approval") == string(infrav1.HostApprovalDenied)
	})
	want(t, "the page of a host that is denied", c.page(t, path), "Somebody denied this host")
	for range 2 { // again, nothing is in the way
		if code, text, _ := c.as(t, http.MethodPost, path, good.Encode(), same); code != http.StatusSeeOther || approval() != infrav1.HostApprovalApproved {
			t.Errorf("answered %d, the host is %s: %s", code, approval(), text)
		}
	}
	// The page reads what a watch has brought.
	poll.True(t, "an approved host has no form", func() bool { return !strings.Contains(c.page(t, path), "<form class") })
}
