package console

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// policy lets a page load only what the console itself serves, and no code or style that
// is not a file of it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is more than any form of the console has.
const maxForm = 64 << 10

const (
	sessionPath = "/session"
	tokenParam  = "token"
	csrfField   = "csrf"
)

// guard admits one browser: whoever shows the token first gets the session. Everybody on
// the machine can connect to its loopback device, and every page that the user's browser
// shows can have it send requests there.
type guard struct {
	address *net.TCPAddr
	// hosts are the names under which the console may be asked for; a page of somebody
	// else whose name was made to lead here asks for another one.
	hosts       []string
	cookie      string
	crossOrigin *http.CrossOriginProtection

	session, csrf string

	mu sync.Mutex
	// token is empty once it was used.
	token string
}

func newGuard(address *net.TCPAddr) *guard {
	port := strconv.Itoa(address.Port)
	return &guard{
		address: address,
		hosts:   []string{address.String(), net.JoinHostPort("localhost", port)},
		// Cookies do not tell ports apart.
		cookie:      "slipway-console-" + port,
		crossOrigin: http.NewCrossOriginProtection(),
		session:     rand.Text(), csrf: rand.Text(), token: rand.Text(),
	}
}

func (g *guard) url() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := url.URL{Scheme: "http", Host: g.address.String(), Path: sessionPath, RawQuery: url.Values{tokenParam: {g.token}}.Encode()}
	return u.String()
}

// protect admits to next what comes from the one browser.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if !slices.Contains(g.hosts, r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "The console does not answer to this name.")
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
		default:
			refuse(w, http.StatusMethodNotAllowed, "The console answers GET and POST.")
			return
		}
		// The token is what admits here, wherever the address was clicked.
		if r.URL.Path == sessionPath && r.Method == http.MethodGet {
			g.open(w, r)
			return
		}
		if !g.ownPage(r) || g.crossOrigin.Check(r) != nil {
			refuse(w, http.StatusForbidden, "The console answers its own pages only.")
			return
		}
		if !g.knows(r) {
			refuse(w, http.StatusUnauthorized, "This browser has no session. Each start of `slipway ui` prints an address that opens one, once.")
			return
		}
		listener.Identify(r.Context(), "session")
		if r.Method == http.MethodPost && !g.meant(w, r) {
			refuse(w, http.StatusForbidden, "This form is not of this console, or of an earlier one. Open the page again.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer browsers would send forms with the origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// ownPage says whether a browser sends the request for a page of the console, or for the
// user who typed its address. Unlike what the standard library checks, reading counts,
// too: pages of another port of this machine have the cookie sent along.
func (g *guard) ownPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host
}

func (g *guard) knows(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookie)
	return err == nil && same(cookie.Value, g.session)
}

// meant says whether a form was filled in on a page of the console.
func (g *guard) meant(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return r.ParseForm() == nil && same(r.PostForm.Get(csrfField), g.csrf)
}

// open exchanges the token for the session, once. It answers with a page that goes on by
// itself, not with a redirect: a browser that came from elsewhere would follow that one
// without the cookie.
func (g *guard) open(w http.ResponseWriter, r *http.Request) {
	if !g.knows(r) && !g.use(r.URL.Query().Get(tokenParam)) {
		refuse(w, http.StatusUnauthorized, "This address was used already, or is of an earlier console. Each start of `slipway ui` prints one that works once.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: there is no TLS on loopback, so no Secure
		Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The address of this page has the token.
	w.Header().Set("Referrer-Policy", "no-referrer")
	fmt.Fprint(w, `<!doctype html><html lang="en"><head><title>Slipway</title><meta http-equiv="refresh" content="0; url=/"></head><body><a href="/">Open the console</a></body></html>`)
}

func (g *guard) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !same(token, g.token) {
		return false
	}
	g.token = ""
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func refuse(w http.ResponseWriter, code int, why string) { http.Error(w, why, code) }
