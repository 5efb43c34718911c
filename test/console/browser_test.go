package console

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// variable names the program.
const variable = "SLIPWAY_TEST_CHROMIUM"

// elsewhere is a name that somebody made to lead to the console.
const elsewhere = "rebound.example"

// browser is a Chromium that finds nothing but this machine.
type browser struct {
	ctx context.Context
	t   *testing.T
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("needs a Chromium, which %s names; `make test-console` finds or installs it", variable)
	}
	dir := t.TempDir()
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.Env("HOME=" + dir), chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP "+elsewhere+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	})
	if os.Geteuid() == 0 {
		// Its sandbox refuses to work for root.
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &browser{ctx: ctx, t: t}
}

// tab is a page that is looked at.
type tab struct {
	ctx   context.Context
	t     *testing.T
	close context.CancelFunc

	mu sync.Mutex
	// hosts are those that something was asked of.
	hosts map[string]bool
	// complaints are what Chromium has to say of the page: violations of its policy, errors of
	// scripts, answers that are errors.
	complaints []string
}

// tab opens an empty one.
func (b *browser) tab() *tab {
	b.t.Helper()
	p := &tab{t: b.t, hosts: map[string]bool{}}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithListener(p.note))
	b.t.Cleanup(cancel)
	p.ctx, p.close = ctx, cancel
	p.do(chromedp.EmulateViewport(1280, 900), focused)
	return p
}

// focused has a tab take keys as if nobody looked at another one.
func focused(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return chromedp.Void{}, err
}

// note is called for what happens in the tab.
func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "about" {
			p.hosts[u.Host] = true
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelWarning || e.Entry.Level == log.EntryLevelError {
			p.complaints = append(p.complaints, e.Entry.Text+" ("+e.Entry.URL+")")
		}
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.complaints = append(p.complaints, fmt.Sprint("console: ", e.Type))
		}
	}
}

// noted are the hosts that were asked, and the complaints.
func (p *tab) noted() (hosts, complaints []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.hosts {
		hosts = append(hosts, name)
	}
	return hosts, append([]string{}, p.complaints...)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if _, err := within(p, chromedp.Steps(steps...)); err != nil {
		p.t.Fatal(err)
	}
}

// within runs an action that may not hang for ever.
func within[T any](p *tab, action chromedp.Action[T]) (T, error) {
	// The tab ends with the context of its first action.
	if _, err := chromedp.Run(p.ctx, chromedp.Steps()); err != nil {
		var none T
		return none, err
	}
	return chromedp.Run(p.ctx, action)
}

// open goes to an address. What is on the page is of this load until it is loaded anew.
func (p *tab) open(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate(address), mark)
}

// mark is lost when the page is loaded anew.
var mark = chromedp.Evaluate[chromedp.Void]("void (window.loadedOnce = true)")

// evaluate has the page compute something.
func evaluate[T any](p *tab, expression string, options ...chromedp.EvaluateOption) T {
	p.t.Helper()
	value, err := within(p, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// shows waits until the page has all of the texts, without it being loaded anew.
func (p *tab) shows(texts ...string) {
	p.t.Helper()
	p.await(texts...)
	if !evaluate[bool](p, "window.loadedOnce === true") {
		p.t.Error("the page was loaded anew")
	}
}

// says wants a text on the page that was loaded.
func (p *tab) says(text string) {
	p.t.Helper()
	if shown := evaluate[string](p, "document.body.innerText"); !strings.Contains(shown, text) {
		p.t.Errorf("no %q in:\n%s", text, shown)
	}
}

// await waits until the page has all of the texts.
func (p *tab) await(texts ...string) {
	p.t.Helper()
	poll.Until(p.t, "the page shows "+strings.Join(texts, ", "), func() error {
		// While the page changes there may be none.
		shown, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Errorf("no %q in:\n%s", text, shown)
			}
		}
		return nil
	})
}

// accessible wants that axe finds nothing wrong with the page. Its file lies beside the browser.
func (p *tab) accessible(what string) {
	p.t.Helper()
	rules, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv(variable)), "axe.min.js"))
	if err != nil {
		p.t.Fatalf("%s is not held to the rules of accessibility, which `make chromium` gets: %v", what, err)
	}
	p.do(chromedp.Evaluate[chromedp.Void]("void (function () {" + string(rules) + "})()"))
	if found := evaluate[string](p, `axe.run().then(r => r.violations.map(v => v.impact + ": " + v.help + ": " + v.nodes[0].html).join("\n"))`, chromedp.EvalAwaitPromise); found != "" {
		p.t.Errorf("%s:\n%s", what, found)
	}
}

// follow clicks on what a selector finds and waits for the page that comes of it. The page
// clicks by itself: what is looked for by its place may have moved before the mouse is there.
func (p *tab) follow(selector string) {
	p.t.Helper()
	click := chromedp.Evaluate[chromedp.Void](fmt.Sprintf("void document.querySelector(%s).click()", quote(selector)))
	if _, err := chromedp.RunResponse(p.ctx, click); err != nil {
		p.t.Fatalf("click %s: %v", selector, err)
	}
	p.do(mark)
}

func quote(text string) string { return strconv.Quote(text) }
