package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

func TestMain(m *testing.M) { judge.Main(m, "../../bin") }

// story is a world with a console that is open in a browser.
type story struct {
	*world
	*browser
	t    *testing.T
	base string
}

func newStory(t *testing.T) *story {
	t.Helper()
	level.Deep(t)
	// It is judged first whether there is a browser.
	b := newBrowser(t)
	s := &story{browser: b, world: newWorld(t), t: t}
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operator, Groups: []string{"system:authenticated"}}
	own, err := client.NewWithWatch(config, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	shown, err := console.Listen(ctx, console.Config{Address: console.DefaultAddress, Rest: config, Client: own, Namespace: namespace, Name: "the management cluster of the test"})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- shown.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	link, err := url.Parse(shown.URL())
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + link.Host
	first := s.tab()
	first.open(shown.URL())
	first.await("There is no host yet")
	if at := evaluate[string](first, "location.href"); at != s.base+"/" {
		t.Errorf("the address leads to %s", at)
	}
	s.expectClean("the first page", first)
	first.close()
	return s
}

// page opens a page of the console.
func (s *story) page(path string) *tab {
	s.t.Helper()
	p := s.tab()
	p.open(s.base + path)
	return p
}

// expectClean wants that a page asked nobody but the console, and Chromium found nothing
// to complain about.
func (s *story) expectClean(name string, p *tab) {
	s.t.Helper()
	hosts, complaints := p.noted()
	if want := []string{strings.TrimPrefix(s.base, "http://")}; !slices.Equal(hosts, want) {
		s.t.Errorf("%s asks %v, want %v", name, hosts, want)
	}
	if len(complaints) > 0 {
		s.t.Errorf("Chromium says of %s:\n%s", name, strings.Join(complaints, "\n"))
	}
}

// TestConsole follows a cluster from the request for it to a host that is lost.
func TestConsole(t *testing.T) {
	s := newStory(t)
	fleet, overview, cluster := s.page("/hosts"), s.page("/"), s.page("/clusters")
	for i, rack := range []string{"rack-a", "rack-a", "rack-b"} {
		s.host(fmt.Sprintf("host-%d", i+1), rack)
	}
	cut := s.host("host-4", "rack-b")
	fleet.shows("rack-a", "rack-b", "host-1", "host-4", "Available")

	s.order()
	cluster.shows(clusterName)
	cluster.open(s.base + "/clusters/" + namespace + "/" + clusterName)
	cluster.shows("LifecycleHookWaits")
	runs := s.page("/decisions")
	overview.shows("LifecycleHookWaits", "Approve board…", "2 free of 2")
	runs.shows("BeforeClusterCreate", "Is the change request signed?")
	runs.shot("decisions")

	s.attacked()

	// An approval is given.
	if s.made() {
		t.Fatal("the Cluster went on without an approval")
	}
	runs.follow(".item a.button")
	runs.do(chromedp.SendKeys(chromedp.CSS("#reason"), "CHG-4711"))
	runs.follow("form.decide button")
	runs.await("CHG-4711", operator)
	if d := s.theRun().Spec.Decisions; len(d) != 1 || d[0].By != operator || d[0].Reason != "CHG-4711" {
		t.Errorf("decisions: %+v", d)
	}
	runs.shot("run")
	cluster.shows("Provisioning")

	// The cluster comes up, and a machine too many waits.
	s.controlPlane("edge-control-plane")
	fleet.shows(clusterName + "/edge-control-plane")
	s.initialized()
	s.pool("workers", 4)
	cluster.shows("edge-control-plane", "1/1 ready", "workers", "3/4 ready", "No host. See why")
	fleet.shows("Running")
	why := s.page(evaluate[string](cluster, `document.querySelector('a[href^="/placement/"]').getAttribute("href")`))
	why.shows("Why hosts do not fit", "host-1")
	why.shot("placement")
	s.expectClean("the placement", why)
	why.close()

	s.readsALog()

	// A host is cut. What was selected stays so while the page changes.
	const selected = `document.querySelector("#b-` + namespace + `-host-2")`
	fleet.do(chromedp.Evaluate[chromedp.Void]("void (" + selected + ".checked = true)"))
	cut()
	fleet.shows("not connected", "HostDisconnected")
	if !evaluate[bool](fleet, selected+".checked") {
		s.t.Error("a host is not selected any more once another one has changed")
	}
	// For a minute it is a note, which is folded.
	overview.shows("HostDisconnected", "systemctl restart slipway-agent")
	s.usable(overview)
	for name, p := range map[string]*tab{"the hosts": fleet, "the overview": overview, "the cluster": cluster, "the runs": runs} {
		s.expectClean(name, p)
	}
	s.injected()
}

// readsALog follows the log of a kubelet: lines show as they come, and a form that is filled in stays.
func (s *story) readsALog() {
	s.t.Helper()
	const form = `document.querySelector("#log-of")`
	log := s.page("/hosts/" + namespace + "/host-1/logs")
	log.do(chromedp.Evaluate[chromedp.Void]("void (" + form + `.unit.value = "Kubelet")`))
	log.do(chromedp.Evaluate[chromedp.Void]("void (" + form + ".follow.checked = true)"))
	log.follow("#log-of button")
	log.shows("follows")
	log.do(chromedp.Evaluate[chromedp.Void]("void (" + form + `.since.value = "1h")`))
	s.answerLog(kubeletLog)
	log.shows("Started kubelet", "Node became ready")
	if since := evaluate[string](log, form+".since.value"); since != "1h" {
		s.t.Errorf("the form was filled in with %q while lines came", since)
	}
	log.shot("logs")
	log.accessible("a log")
	s.expectClean("the log", log)
	log.close()
}

// usable holds what docs/console.md says of large print, dark colours and the keyboard.
func (s *story) usable(overview *tab) {
	t := s.t
	t.Helper()
	for name, path := range map[string]string{
		"overview": "/", "host": "/hosts/" + namespace + "/host-4", "clusters": "/clusters", "cluster": "/clusters/" + namespace + "/" + clusterName,
		"yaml": "/clusters/" + namespace + "/" + clusterName + "/yaml", "create": "/clusters/new", "kubeconfig": "/clusters/" + namespace + "/" + clusterName + "/do/kubeconfig",
		"pool": "/pools/" + namespace + "/workers", "activity": "/activity", "find": "/find?q=host-1", "hosts": "/hosts", "log": "/hosts/" + namespace + "/host-1/logs", "versions": "/versions", "racks": "/hosts?racks=1",
		"bulk": "/hosts/do?action=reboot&host=" + namespace + "/host-1&host=" + namespace + "/host-2", "act": "/hosts/" + namespace + "/host-1/do/reboot", "run-of-create": "/runs/" + namespace + "/" + s.theRun().Name, "decided": "/decisions",
	} {
		p := s.page(path)
		p.shot(name)
		for _, scheme := range []string{"light", "dark"} {
			p.prefers(scheme)
			// The narrowest with tables has 640, and at 200 % a window of 1400 pixels is as wide as one of 700.
			for _, width := range []int64{1400, 768, 650, 390} {
				p.do(chromedp.EmulateViewport(width, 900))
				if over := evaluate[int](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
					t.Errorf("%s is %d pixels too wide for %d", path, over, width)
				}
				// What is found depends on the colours, and on whether a table is one or cards.
				if width != 650 {
					p.accessible(fmt.Sprint(path, ", ", scheme, ", ", width))
				}
			}
		}
		s.expectClean(path, p)
		p.close()
	}
	const background = "getComputedStyle(document.body).backgroundColor"
	overview.prefers("light")
	overview.shot("overview")
	light := evaluate[string](overview, background)
	overview.prefers("dark")
	overview.shot("overview-dark")
	if dark := evaluate[string](overview, background); dark == light {
		t.Errorf("it is %s in the dark, too", dark)
	}
	const active = `document.activeElement.innerText.trim() || document.activeElement.id`
	overview.do(chromedp.KeyEvent(kb.Tab))
	if at := evaluate[string](overview, active); at != "Skip to the content" {
		t.Errorf("the first key leads to %q", at)
	}
	overview.do(chromedp.KeyEvent(kb.Enter))
	poll.True(t, "the link leads to the content", func() bool { return evaluate[string](overview, "document.activeElement.id") == "page" })
}

// attacked has pages of others try to decide: with the session, which browsers send to all
// ports of a machine, and with the token of the form, which those pages cannot know.
func (s *story) attacked() {
	t := s.t
	t.Helper()
	run := "/runs/" + namespace + "/" + s.theRun().Name
	form := s.page(run + "/decide?decision=Approve&step=board")
	csrf := evaluate[string](form, `document.querySelector("input[name=csrf]").value`)
	decide := s.base + run + "/decide"
	expectUndecided := func(what string) {
		t.Helper()
		if run := s.theRun(); len(run.Spec.Decisions) > 0 || len(run.Annotations) > 0 {
			t.Fatalf("%s decided: %v, %+v", what, run.Annotations, run.Spec.Decisions)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action=%q>`, html.EscapeString(decide))
		for name, value := range map[string]string{"csrf": csrf, "decision": "Approve", "step": "board", "reason": "forged"} {
			fmt.Fprintf(w, `<input name=%q value=%q>`, name, html.EscapeString(value))
		}
		fmt.Fprint(w, `<button>win a prize</button></form>`)
	}))
	defer other.Close()
	forger := s.tab()
	forger.open(other.URL)
	forger.follow("button")
	forger.says("answers its own pages only")
	expectUndecided("a form of another port")
	// The address bar of the victim leads to it, and so would a link.
	forger.open(strings.Replace(s.base, "127.0.0.1", elsewhere, 1) + run)
	forger.says("does not answer to this name")

	const post = `fetch(%s, {method: "POST", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body: new URLSearchParams({csrf: %s, decision: "Approve", step: "board", reason: "forged"})}).then(r => r.status)`
	code := evaluate[int](form, fmt.Sprintf(post, quote(decide), quote("guessed")), chromedp.EvalAwaitPromise)
	if code != http.StatusForbidden {
		t.Errorf("a form with another token is answered %d", code)
	}
	expectUndecided("a form with another token")
	form.shot("decide")
	form.close()
	forger.close()
}

// injected proves that what is complained about is seen: the page is made to do what its
// policy forbids, and neither runs it nor asks anybody.
func (s *story) injected() {
	t := s.t
	t.Helper()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	p := s.page("/clusters")
	evaluate[chromedp.Void](p, `void document.body.append(Object.assign(document.createElement("script"), {textContent: "window.injected = true"}))`)
	failed := evaluate[bool](p, fmt.Sprintf(`fetch(%s).then(() => false, () => true)`, quote(other.URL)), chromedp.EvalAwaitPromise)
	if !failed || asked.Load() > 0 || evaluate[bool](p, "window.injected === true") {
		t.Errorf("refused: %t; %d requests came; the script ran: %t", failed, asked.Load(), evaluate[bool](p, "window.injected === true"))
	}
	poll.Until(t, "the browser tells of both", func() error {
		_, complaints := p.noted()
		for _, directive := range []string{"script-src", "connect-src"} {
			if !strings.Contains(strings.Join(complaints, "\n"), directive) {
				return fmt.Errorf("nothing of %s is told: %q", directive, complaints)
			}
		}
		return nil
	})
}
