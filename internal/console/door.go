package console

import (
	"crypto/subtle"
	"net/http"
	"slices"
)

// policy lets a page load only what the console itself serves, and no code or style that
// is not a file of it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	// maxForm is more than any form of the console has.
	maxForm   = 64 << 10
	csrfField = "csrf"
)

// Door refuses what a browser does not send for pages of the console. Who somebody is, is not its concern.
type Door struct {
	// Scheme is http or https.
	Scheme string
	// Hosts are the names, with a port unless it is that of the scheme, under which the console may be asked for; a
	// page of somebody else whose name was made to lead here asks for another one.
	Hosts []string

	crossOrigin http.CrossOriginProtection
}

// Admit sets the headers of every answer, and refuses requests under other names, and of methods that no page has.
func (d *Door) Admit(w http.ResponseWriter, r *http.Request) bool {
	setHeaders(w.Header())
	if !slices.Contains(d.Hosts, r.Host) {
		Refuse(w, http.StatusMisdirectedRequest, "The console does not answer to this name.")
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		return true
	}
	Refuse(w, http.StatusMethodNotAllowed, "The console answers GET and POST.")
	return false
}

// OwnPage refuses a request that a browser does not send for a page of the console, or for the user who typed its
// address. Unlike what the standard library checks, reading counts, too: pages of another port of this machine have
// the cookie sent along.
func (d *Door) OwnPage(w http.ResponseWriter, r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if (site == "" || site == "same-origin" || site == "none") && (origin == "" || origin == d.Scheme+"://"+r.Host) && d.crossOrigin.Check(r) == nil {
		return true
	}
	Refuse(w, http.StatusForbidden, "The console answers its own pages only.")
	return false
}

// Meant refuses a form that was not filled in on a page of a session.
func (d *Door) Meant(w http.ResponseWriter, r *http.Request, csrf string) bool {
	if r.Method != http.MethodPost {
		return true
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() == nil && Same(r.PostForm.Get(csrfField), csrf) {
		return true
	}
	Refuse(w, http.StatusForbidden, "This form is not of this console, or of an earlier one. Open the page again.")
	return false
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

// Same compares secrets.
func Same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Refuse answers with a text alone.
func Refuse(w http.ResponseWriter, code int, why string) { http.Error(w, why, code) }
