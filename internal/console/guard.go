package console

import (
	"crypto/rand"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/slipway-dev/slipway/sdk/listener"
)

const (
	sessionPath = "/session"
	tokenParam  = "token"
)

// guard admits one browser: whoever shows the token first gets the session. Everybody on
// the machine can connect to its loopback device, and every page that the user's browser
// shows can have it send requests there.
type guard struct {
	door    Door
	address *net.TCPAddr
	cookie  string

	session, csrf string

	mu sync.Mutex
	// token is empty once it was used.
	token string
}

func newGuard(address *net.TCPAddr) *guard {
	port := strconv.Itoa(address.Port)
	return &guard{
		door:    Door{Scheme: "http", Hosts: []string{address.String(), net.JoinHostPort("localhost", port)}},
		address: address,
		// Cookies do not tell ports apart.
		cookie:  "slipway-console-" + port,
		session: rand.Text(), csrf: rand.Text(), token: rand.Text(),
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
		if !g.door.Admit(w, r) {
			return
		}
		// The token is what admits here, wherever the address was clicked.
		if r.URL.Path == sessionPath && r.Method == http.MethodGet {
			g.open(w, r)
			return
		}
		if !g.door.OwnPage(w, r) {
			return
		}
		if !g.knows(r) {
			Refuse(w, http.StatusUnauthorized, "This browser has no session. Each start of `slipway ui` prints an address that opens one, once.")
			return
		}
		listener.Identify(r.Context(), "session")
		if g.door.Meant(w, r, g.csrf) {
			next.ServeHTTP(w, r)
		}
	})
}

func (g *guard) knows(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookie)
	return err == nil && Same(cookie.Value, g.session)
}

// open exchanges the token for the session, once.
func (g *guard) open(w http.ResponseWriter, r *http.Request) {
	if !g.knows(r) && !g.use(r.URL.Query().Get(tokenParam)) {
		Refuse(w, http.StatusUnauthorized, "This address was used already, or is of an earlier console. Each start of `slipway ui` prints one that works once.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: there is no TLS on loopback, so no Secure
		Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	GoOn(w, "/")
}

// GoOn answers with a page that goes on to a path by itself. With a redirect, a browser that came from elsewhere would
// follow without the cookie.
func GoOn(w http.ResponseWriter, path string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The address of this page has what admits.
	w.Header().Set("Referrer-Policy", "no-referrer")
	fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>Slipway</title><meta http-equiv="refresh" content="0; url=%[1]s"></head><body><a href="%[1]s">Open the console</a></body></html>`, html.EscapeString(path))
}

func (g *guard) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !Same(token, g.token) {
		return false
	}
	g.token = ""
	return true
}
