package console

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// guarded is a server behind a guard, with a browser that has no session yet.
type guarded struct {
	*guard
	browser *http.Client
	base    string
	// reached counts the requests that the guard let pass.
	reached atomic.Int64
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{browser: newBrowser(t)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { g.reached.Add(1) })).ServeHTTP(w, r)
	}))
	g.guard = newGuard(server.Listener.Addr().(*net.TCPAddr))
	server.Listener = listener.New(server.Listener, listener.Options{Anonymous: 2})
	server.Start()
	t.Cleanup(server.Close)
	g.base = server.URL
	return g
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// opened has the session already.
func opened(t *testing.T) *guarded {
	t.Helper()
	g := newGuarded(t)
	if code, _, _ := g.send(t, http.MethodGet, g.link(), "", unchanged); code != http.StatusOK {
		t.Fatalf("the address answers %d", code)
	}
	return g
}

func (g *guarded) link() string { return strings.TrimPrefix(g.url(), g.base) }

func (g *guarded) send(t *testing.T, method, path, body string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	change(r)
	response, err := g.browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

func unchanged(*http.Request) {}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func asked(host string) func(*http.Request) {
	return func(r *http.Request) { r.Host = strings.ReplaceAll(host, "PORT", r.URL.Port()) }
}

// requests are what comes to the console, and what it answers.
var requests = map[string]struct {
	change func(*http.Request)
	want   int
}{
	"without what browsers tell":   {unchanged, http.StatusOK},
	"a page of it":                 {with("Sec-Fetch-Site", "same-origin"), http.StatusOK},
	"an address that was typed":    {with("Sec-Fetch-Site", "none"), http.StatusOK},
	"localhost":                    {asked("localhost:PORT"), http.StatusOK},
	"a name that was made to lead": {asked("evil.example:PORT"), http.StatusMisdirectedRequest},
	"a name of this machine":       {asked("evil.localhost:PORT"), http.StatusMisdirectedRequest},
	"the address without its port": {asked("127.0.0.1"), http.StatusMisdirectedRequest},
	"another port":                 {asked("127.0.0.1:1"), http.StatusMisdirectedRequest},
	"a page of another site":       {with("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
	"a page of another port":       {with("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
	"another origin":               {with("Origin", "http://evil.example"), http.StatusForbidden},
	"an origin of another port":    {with("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
	"an origin that hides":         {with("Origin", "null"), http.StatusForbidden},
}

func TestOnlyItsOwnPagesAreAnswered(t *testing.T) {
	g := opened(t)
	form := csrfField + "=" + g.csrf
	// Who takes another of its names has the session there.
	session := with("Cookie", g.cookie+"="+g.session)
	for name, tc := range requests {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				before := g.reached.Load()
				code, _, _ := g.send(t, method, "/hosts", form, func(r *http.Request) { session(r); tc.change(r) })
				if passed := g.reached.Load() > before; code != tc.want || passed != (tc.want == http.StatusOK) {
					t.Errorf("%s answers %d, want %d; it passed: %t", method, code, tc.want, passed)
				}
			}
		})
	}
}

// TestTheSessionKeepsItsConnection holds that programs of the machine which connect, whatever they send, take no
// connection of the browser that has the session.
func TestTheSessionKeepsItsConnection(t *testing.T) {
	g := opened(t)
	g.send(t, http.MethodGet, "/", "", unchanged)
	for range 2 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", g.address.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.base+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		stranger := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := stranger.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK {
			t.Errorf("without the session: %s, %v", response.Status, err)
		}
	}
	reused := false
	code, _, _ := g.send(t, http.MethodGet, "/", "", func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}))
	})
	if code != http.StatusOK || !reused {
		t.Errorf("the browser gets %d, on its connection: %t", code, reused)
	}
}

func TestFormsAreItsOwn(t *testing.T) {
	g := opened(t)
	for name, tc := range map[string]struct {
		path, body string
		want       int
	}{
		"its own":            {"/x", csrfField + "=" + g.csrf, http.StatusOK},
		"no token":           {"/x", "", http.StatusForbidden},
		"another token":      {"/x", csrfField + "=guess", http.StatusForbidden},
		"token in the query": {"/x?" + csrfField + "=" + g.csrf, "", http.StatusForbidden},
		"the session":        {"/x", csrfField + "=" + g.session, http.StatusForbidden},
		"too much":           {"/x", csrfField + "=" + g.csrf + "&x=" + strings.Repeat("x", maxForm), http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			before := g.reached.Load()
			code, _, _ := g.send(t, http.MethodPost, tc.path, tc.body, unchanged)
			if passed := g.reached.Load() > before; code != tc.want || passed != (tc.want == http.StatusOK) {
				t.Errorf("answers %d, want %d; it passed: %t", code, tc.want, passed)
			}
		})
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "PROPFIND"} {
		before := g.reached.Load()
		if code, _, _ := g.send(t, method, "/x", csrfField+"="+g.csrf, unchanged); code != http.StatusMethodNotAllowed || g.reached.Load() > before {
			t.Errorf("%s answers %d", method, code)
		}
	}
}

func TestTheAddressWorksOnce(t *testing.T) {
	g := newGuarded(t)
	form := csrfField + "=" + g.csrf
	for _, path := range []string{"/", "/hosts", "/live/hosts", "/static/htmx.min.js", sessionPath, sessionPath + "?token=", sessionPath + "?token=guess"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if code, _, _ := g.send(t, method, path, form, unchanged); code != http.StatusUnauthorized || g.reached.Load() > 0 {
				t.Errorf("without a session %s %s answers %d", method, path, code)
			}
		}
	}
	for name, cookie := range map[string]string{"another session": g.cookie + "=guess", "no session": g.cookie + "=", "that of another console": "slipway-console-1=" + g.session} {
		if code, _, _ := g.send(t, http.MethodGet, "/hosts", "", with("Cookie", cookie)); code != http.StatusUnauthorized || g.reached.Load() > 0 {
			t.Errorf("%s: answers %d", name, code)
		}
	}
	link, token := g.link(), g.token
	// Only who asks for the page under the console's own name uses it up.
	if code, _, _ := g.send(t, http.MethodHead, link, "", unchanged); code != http.StatusUnauthorized {
		t.Errorf("HEAD of the address answers %d", code)
	}
	if code, _, _ := g.send(t, http.MethodGet, link, "", asked("evil.example:PORT")); code != http.StatusMisdirectedRequest {
		t.Errorf("under another name the address answers %d", code)
	}
	code, text, headers := g.send(t, http.MethodGet, link, "", with("Sec-Fetch-Site", "cross-site"))
	if code != http.StatusOK || !strings.Contains(text, `href="/"`) || strings.Contains(text, token) {
		t.Fatalf("the address answers %d: %s", code, text)
	}
	if policy := headers.Get("Referrer-Policy"); policy != "no-referrer" {
		t.Errorf("the address with the token is told to others: Referrer-Policy is %q", policy)
	}
	cookie := headers.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, "Domain") || strings.Contains(cookie, token) {
		t.Errorf("cookie %s", cookie)
	}
	for _, path := range []string{"/hosts", link} {
		if code, _, _ := g.send(t, http.MethodGet, path, "", unchanged); code != http.StatusOK {
			t.Errorf("with the session %s answers %d", path, code)
		}
	}
	g.browser = newBrowser(t)
	before := g.reached.Load()
	for _, path := range []string{link, "/hosts", sessionPath + "?token="} {
		if code, _, _ := g.send(t, http.MethodGet, path, "", unchanged); code != http.StatusUnauthorized || g.reached.Load() > before {
			t.Errorf("who comes second is answered %d at %s", code, path)
		}
	}
}

func TestNothingIsLoadedFromElsewhereOrKept(t *testing.T) {
	g := opened(t)
	_, _, headers := g.send(t, http.MethodGet, "/hosts", "", unchanged)
	for name, value := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if headers.Get(name) != value {
			t.Errorf("%s is %q", name, headers.Get(name))
		}
	}
	csp := strings.Split(headers.Get("Content-Security-Policy"), "; ")
	for _, rule := range csp {
		if name, source, _ := strings.Cut(rule, " "); source != "'self'" && source != "'none'" {
			t.Errorf("%s allows %s", name, source)
		}
	}
	if len(csp) < 8 || csp[0] != "default-src 'none'" {
		t.Errorf("policy %v", csp)
	}
}

func TestItListensOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		if _, err := Listen(t.Context(), Config{Address: address}); err == nil || !strings.Contains(err.Error(), "loopback only") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The token of one start is of no use for another.
func TestEachConsoleHasItsOwnToken(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	first, second := newGuard(address), newGuard(address)
	link, err := url.Parse(first.url())
	if err != nil || second.use(link.Query().Get(tokenParam)) || !first.use(link.Query().Get(tokenParam)) || first.session == second.session || first.csrf == second.csrf {
		t.Errorf("%v, %v", link, err)
	}
}

// posted is how Chromium sends the form of a page to where the page is from: what the page's
// Referrer-Policy makes of the Origin is in the Fetch standard, "append a request Origin
// header".
func posted(base, policy string) func(*http.Request) {
	return func(r *http.Request) {
		origin, referrer := base, base+"/hosts"
		if policy == "no-referrer" {
			origin, referrer = "null", ""
		}
		for name, value := range map[string]string{
			"Origin": origin, "Referer": referrer, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-User": "?1", "Sec-Fetch-Dest": "document",
			"Upgrade-Insecure-Requests": "1",
		} {
			r.Header.Set(name, value)
		}
	}
}

func TestABrowserCanSendItsForms(t *testing.T) {
	g := opened(t)
	_, _, headers := g.send(t, http.MethodGet, "/hosts", "", unchanged)
	before := g.reached.Load()
	code, text, _ := g.send(t, http.MethodPost, "/x", csrfField+"="+g.csrf, posted(g.base, headers.Get("Referrer-Policy")))
	if code != http.StatusOK || g.reached.Load() != before+1 {
		t.Errorf("a form that a browser sends is answered %d: %s", code, text)
	}
}
