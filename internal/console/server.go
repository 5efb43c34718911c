package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/console/watch"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// server renders pages.
type server struct {
	Config
	reader        *watch.Reader
	csrf          string
	templates     *template.Template
	streams       streams
	rights        rights
	logs          logs
	serverVersion serverVersion
	// timeline has the events that the reader knows.
	timeline view.Timeline
	// heartbeats has the Leases that the reader knows.
	heartbeats view.Heartbeats
	now        func() time.Time
}

func newServer(config Config, reader *watch.Reader, csrf string) (*server, error) {
	if config.Explain == nil {
		config.Explain = func(err error) error { return err }
	}
	config.heartbeat = cmp.Or(config.heartbeat, heartbeat)
	s := &server{Config: config, reader: reader, csrf: csrf, now: time.Now}
	var err error
	if s.templates, err = template.New("").Funcs(s.funcs()).ParseFS(templates, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse the pages: %w", err)
	}
	return s, nil
}

// page is one kind of page.
type page struct {
	// pattern of its path, as http.ServeMux has them.
	pattern string
	// template of what is shown.
	template string
	// tab of the navigation that it belongs to.
	tab string
	// load says what the template shows, and what the page is called.
	load func(s *server, v *visit) (title string, content any, err error)
	// still pages do not change while they are looked at: somebody fills in a form.
	still bool
}

// visit is one look at a page.
type visit struct {
	*http.Request
	// read is what the user may see, and o all of it that states follow from.
	read   *watch.Lenient
	o      *doctor.Snapshot
	states *status.States
	// buttons are the actions of the object that is shown.
	buttons []button
}

var pages = []page{
	{pattern: "/{$}", template: "overview", tab: "overview", load: (*server).overview},
	{pattern: "/hosts", template: "hosts", tab: "hosts", load: (*server).hosts},
	{pattern: bulkPattern, template: "bulk", tab: "hosts", load: (*server).bulkForm, still: true},
	{pattern: "/hosts/{namespace}/{name}", template: "host", tab: "hosts", load: (*server).host},
	{pattern: logsPattern, template: "logs", tab: "hosts", load: (*server).log},
	{pattern: approvePattern, template: "approve", tab: "hosts", load: (*server).approving, still: true},
	{pattern: "/clusters", template: "clusters", tab: "clusters", load: (*server).clusters},
	{pattern: createPattern, template: "create", tab: "clusters", load: (*server).createForm, still: true},
	{pattern: "/clusters/{namespace}/{name}/yaml", template: "yaml", tab: "clusters", load: (*server).clusterYAML},
	{pattern: "/clusters/{namespace}/{name}", template: "cluster", tab: "clusters", load: (*server).cluster},
	{pattern: "/pools/{namespace}/{name}", template: "pool", tab: "clusters", load: (*server).pool},
	{pattern: actOnHost, template: "act", tab: "hosts", load: hostActor.form, still: true},
	{pattern: actOnCluster, template: "act", tab: "clusters", load: clusterActor.form, still: true},
	{pattern: "/placement/{namespace}/{name}", template: "placement", tab: "clusters", load: (*server).placement},
	{pattern: "/versions", template: "versions", tab: "versions", load: (*server).versions},
	{pattern: "/decisions", template: "decisions", tab: "decisions", load: (*server).decisions},
	{pattern: "/runs/{namespace}/{name}", template: "run", tab: "decisions", load: (*server).run},
	{pattern: "/runs/{namespace}/{name}/steps/{step}/log", template: "joblog", tab: "decisions", load: (*server).jobLog, still: true},
	{pattern: decidePattern, template: "decide", tab: "decisions", load: (*server).deciding, still: true},
	{pattern: "/activity", template: "activity", tab: "activity", load: (*server).activity},
	{pattern: "/find", template: "find", load: (*server).find, still: true},
	missing,
}

// missing answers for addresses without a page.
var missing = page{pattern: "/", template: "error", still: true, load: func(_ *server, v *visit) (string, any, error) {
	return "", nil, &notFoundError{v.URL.Path}
}}

// notFoundError is for an address without a page.
type notFoundError struct{ path string }

func (e *notFoundError) Error() string { return "the console has no page " + e.path }

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc("GET "+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, p) })
		if !p.still {
			mux.HandleFunc("GET "+livePrefix+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, p) })
		}
	}
	for pattern, change := range map[string]http.HandlerFunc{
		decidePattern: s.decide, approvePattern: s.approve, logsPattern: s.readLog, bulkPattern: s.bulkAct, createPattern: s.create, actOnHost: hostActor.act(s), actOnCluster: clusterActor.act(s),
	} {
		if s.ReadOnly {
			change = s.refuseChange
		}
		mux.HandleFunc("POST "+pattern, change)
	}
	if files, err := fs.Sub(assets, "assets"); err == nil {
		mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(files)))
	}
	return mux
}

func (s *server) refuseChange(w http.ResponseWriter, _ *http.Request) {
	Refuse(w, http.StatusForbidden, "This console changes nothing: run the command that the page shows, or ask who installed it for --allow-changes.")
}

// frame is what surrounds a page.
type frame struct {
	Title, Tab, Cluster, Namespace string
	// User can sign out; empty where the console is the user's own.
	User, CSRF string
	Nav        nav
	// Live is where its stream is; empty for a still page.
	Live string
	// Text is what is looked for, and Activity what the events are narrowed by: these forms
	// stay while a page changes.
	Text     string
	Activity view.EventFilter
}

// nav leads to the pages.
type nav struct {
	Tab string
	view.Summary
	// Live is for one that replaces the one there is.
	Live bool
}

// body is what changes of a page.
type body struct {
	Title string
	// Refused are kinds that the user may not list, in the API server's words.
	Refused []string
	// Silent is since when the API server does not answer.
	Silent time.Time
	CSRF   string
	// Failure of a change that was asked for.
	Failure string
	// Buttons are the actions of the object that is shown.
	Buttons []button
	Content any
}

// rendered is a page without its frame.
type rendered struct {
	title string
	// nav leads to the other pages and counts what is there; it changes with the page.
	nav     nav
	content []byte
	code    int
}

// show answers with a whole page.
func (s *server) show(w http.ResponseWriter, r *http.Request, p page) {
	s.answer(w, r, p, http.StatusOK, "")
}

// answer renders a page with what went wrong of a change, if something did.
func (s *server) answer(w http.ResponseWriter, r *http.Request, p page, code int, failure string) {
	page := s.render(r, p, failure)
	if code == http.StatusOK {
		code = page.code
	}
	f := frame{Title: page.title, Tab: p.tab, Cluster: s.Name, Namespace: s.Namespace, User: s.User, CSRF: s.csrf, Nav: page.nav, Text: r.URL.Query().Get("q"), Activity: eventFilter(r)}
	if !p.still {
		query := r.URL.Query()
		query.Set(haveParam, page.version())
		f.Live = (&url.URL{Path: livePrefix + r.URL.Path, RawQuery: query.Encode()}).String()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if s.templates.ExecuteTemplate(w, "head", f) == nil {
		_, _ = w.Write(page.content)
		_ = s.templates.ExecuteTemplate(w, "foot", f)
	}
}

// ages are the texts that change while nothing happens.
var ages = regexp.MustCompile(`(<time[^>]*>)[^<]*`)

// version tells two looks of a page apart, but by their ages: the browser counts these.
func (r *rendered) version() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%+v\n", r.nav)
	_, _ = sum.Write(ages.ReplaceAll(r.content, []byte("$1")))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// update is what a stream sends of a page that has changed.
func (s *server) update(r *rendered) []byte {
	out := bytes.NewBuffer(bytes.Clone(r.content))
	live := r.nav
	live.Live = true
	_ = s.templates.ExecuteTemplate(out, "nav", live)
	return out.Bytes()
}

// render renders what changes of a page. What goes wrong is shown in its place.
func (s *server) render(r *http.Request, p page, failure string) *rendered {
	v := &visit{Request: r, read: &watch.Lenient{Reader: s.reader}}
	page := &rendered{nav: nav{Tab: p.tab}, code: http.StatusOK}
	var shown any
	err := s.look(r.Context(), v)
	if err == nil {
		page.nav.Summary = view.SummaryOf(v.o, v.states)
		page.title, shown, err = p.load(s, v)
	}
	if s.ReadOnly {
		v.buttons = nil
	}
	b := body{Title: page.title, Refused: refusals(v.read.Refused), Silent: s.reader.Silent(), CSRF: s.csrf, Failure: failure, Buttons: v.buttons, Content: shown}
	name := p.template
	if err != nil {
		page.code, name = statusOf(err), "error"
		page.title, b.Content = errorTitle(page.code), s.Explain(err).Error()
		b.Title = page.title
	}
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "notices", b); err == nil {
		err = s.templates.ExecuteTemplate(&out, name, b)
		if err == nil {
			page.content = out.Bytes()
			return page
		}
	}
	page.title, page.code = errorTitle(http.StatusInternalServerError), http.StatusInternalServerError
	page.content = []byte("<h1>This page cannot be rendered</h1><p>It is a defect of the console: the command line shows the same.</p>")
	return page
}

func errorTitle(code int) string {
	switch code {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden, http.StatusUnauthorized:
		return "Not permitted"
	}
	return "Not available"
}

// refusals are the words of the API server about kinds that can't be listed.
func refusals(errs []error) []string {
	var told []string
	for _, err := range errs {
		var none *meta.NoKindMatchError
		if errors.As(err, &none) && none.GroupKind.Group == lifecyclev1.GroupVersion.Group {
			continue // slipway-lifecycle is an addition
		}
		told = append(told, err.Error())
	}
	return told
}

func statusOf(err error) int {
	if none := (*notFoundError)(nil); errors.As(err, &none) {
		return http.StatusNotFound
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Code >= http.StatusBadRequest {
		return int(answer.Status().Code)
	}
	return http.StatusBadGateway
}
