package team

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/text"
	"github.com/slipway-dev/slipway/sdk/listener"
)

const (
	signInPath   = "/signin"
	callbackPath = "/callback"
	signOutPath  = "/signout"
	nextParam    = "next"

	// Browsers take such cookies from this host over TLS alone.
	sessionCookie = "__Host-slipway-console"
	attemptCookie = "__Host-slipway-signin"
)

// Server answers browsers: those that have a session with the pages of its user.
type Server struct {
	Options
	config *rest.Config
	// newClient makes the client of a user.
	newClient func(*rest.Config) (client.WithWatch, error)
	log       logr.Logger
	door      console.Door
	provider  *provider
	sessions  *sessions
	// ctx ends all sessions.
	ctx context.Context //nolint:containedctx // the life of the program
}

var _ http.Handler = &Server{}

// New returns a console whose sessions end with ctx. config has the credential that impersonates; newClient makes a client of
// each user with it.
func New(ctx context.Context, config *rest.Config, newClient func(*rest.Config) (client.WithWatch, error), o Options, log logr.Logger) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	o.Name = cmp.Or(o.Name, u.Hostname())
	s := &Server{Options: o, config: config, newClient: newClient, log: log, door: console.Door{Scheme: u.Scheme, Hosts: []string{u.Host, u.Hostname()}}, sessions: newSessions(), ctx: ctx}
	if u.Port() != "" && u.Port() != "443" {
		s.door.Hosts = []string{u.Host}
	}
	s.provider, err = newProvider(o.OIDC, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: callbackPath}).String())
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.door.Admit(w, r) {
		return
	}
	// The provider leads here, from elsewhere; the attempt's cookie and state are what admit.
	if r.Method == http.MethodGet && r.URL.Path == callbackPath {
		s.signedIn(w, r)
		return
	}
	// So do links in chats and mails, to pages, without the cookie of the session: the browser asks again by itself, with it.
	if fromElsewhere(r) {
		console.GoOn(w, r.URL.RequestURI())
		return
	}
	if !s.door.OwnPage(w, r) {
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == signInPath {
		s.signIn(w, r)
		return
	}
	name, opened := s.session(r)
	if opened == nil {
		s.stranger(w, r)
		return
	}
	listener.Identify(r.Context(), "user "+opened.user.name)
	if !s.door.Meant(w, r, opened.csrf) {
		return
	}
	if r.URL.Path == signOutPath {
		if r.Method == http.MethodPost {
			s.signOut(w, name)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(opened.closed, cancel)() //nolint:contextcheck // the session, which outlives the request
	opened.pages.ServeHTTP(w, r.WithContext(ctx))
}

// fromElsewhere says whether somebody followed a link of another site.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func (s *Server) session(r *http.Request) (string, *session) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", nil
	}
	return cookie.Value, s.sessions.of(cookie.Value)
}

// stranger leads who wants to see a page to the provider.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/live/") || strings.HasPrefix(r.URL.Path, "/static/") {
		console.Refuse(w, http.StatusUnauthorized, "You are not signed in, or not any more: load the page again. Nothing was done.")
		return
	}
	http.Redirect(w, r, signInPath+"?"+url.Values{nextParam: {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	begun, to, err := s.provider.begin(r.Context(), r.URL.Query().Get(nextParam))
	if err != nil {
		signIns.WithLabelValues(failed).Inc()
		s.log.Error(err, "Nobody can sign in")
		console.Refuse(w, http.StatusBadGateway, "Nobody can sign in: the provider cannot be asked. The log of slipway-console has the reason; try again.")
		return
	}
	setCookie(w, attemptCookie, s.sessions.await(begun), http.SameSiteLaxMode)
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // G710: the provider's own address
}

// signedIn is where the provider leads back to.
func (s *Server) signedIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	var begun *attempt
	if cookie, err := r.Cookie(attemptCookie); err == nil {
		begun = s.sessions.take(cookie.Value)
	}
	setCookie(w, attemptCookie, "", http.SameSiteLaxMode)
	again := "\nSign in again: " + s.URL
	if begun == nil || !console.Same(query.Get("state"), begun.state) {
		signIns.WithLabelValues(refused).Inc()
		console.Refuse(w, http.StatusBadRequest, "This sign-in was not begun in this browser, was used already, or took longer than "+signInPatience.String()+"."+again)
		return
	}
	if told := query.Get("error"); told != "" {
		signIns.WithLabelValues(refused).Inc()
		console.Refuse(w, http.StatusForbidden, fmt.Sprintf("The provider did not sign you in: %s %s.%s", text.Printable(told), text.Printable(query.Get("error_description")), again))
		return
	}
	who, err := s.provider.end(r.Context(), begun, query.Get("code"))
	if err != nil {
		signIns.WithLabelValues(refused).Inc()
		s.log.Error(err, "Somebody was not signed in")
		console.Refuse(w, http.StatusForbidden, "You are not signed in: "+text.Printable(err.Error())+"."+again)
		return
	}
	opened, err := s.open(*who) //nolint:contextcheck // the session outlives the request
	if err != nil {
		signIns.WithLabelValues(failed).Inc()
		s.log.Error(err, "The pages of a user could not be made", "user", who.name)
		console.Refuse(w, http.StatusBadGateway, "The management cluster does not answer. The log of slipway-console has the reason; try again.")
		return
	}
	signIns.WithLabelValues(succeeded).Inc()
	s.log.Info("Signed in", "user", who.name, "groups", who.groups, "until", opened.ends)
	name := s.sessions.add(opened)
	context.AfterFunc(opened.closed, func() { s.sessions.drop(name) }) //nolint:contextcheck // the session outlives the request
	setCookie(w, sessionCookie, name, http.SameSiteStrictMode)
	console.GoOn(w, begun.next)
}

// open makes the pages of a user.
func (s *Server) open(who user) (*session, error) {
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: who.name, Groups: who.groups}
	own, err := s.newClient(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.SessionDuration)
	opened := &session{user: who, csrf: rand.Text(), closed: ctx, ends: s.sessions.now().Add(s.SessionDuration)}
	pages, end, err := console.NewPages(ctx, console.Config{
		Rest: config, Client: own, Namespace: s.Namespace, Name: s.Name, User: who.name, ReadOnly: !s.AllowChanges,
	}, opened.csrf)
	if err != nil {
		cancel()
		return nil, err
	}
	opened.pages, opened.close = pages, func() {
		cancel()
		go end() // it waits for requests to hosts
	}
	return opened, nil
}

func (s *Server) signOut(w http.ResponseWriter, name string) {
	s.sessions.drop(name)
	setCookie(w, sessionCookie, "", http.SameSiteStrictMode)
	console.Refuse(w, http.StatusOK, "You are signed out of the console, and not of the provider.\nSign in again: "+s.URL)
}

// setCookie sets a cookie of this host for as long as the browser runs; an empty value takes it away.
func setCookie(w http.ResponseWriter, name, value string, site http.SameSite) {
	cookie := &http.Cookie{ //nolint:gosec // G124: SameSite is given
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: site,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
