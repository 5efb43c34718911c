package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/console/watch"
)

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// server renders pages.
type server struct {
	Config
	reader    *watch.Reader
	guard     *guard
	templates *template.Template
	streams   streams
	// timeline has the events that the reader knows.
	timeline view.Timeline
	now      func() time.Time
}

func newServer(config Config, reader *watch.Reader, g *guard) (*server, error) {
	if config.Explain == nil {
		config.Explain = func(err error) error { return err }
	}
	config.heartbeat = cmp.Or(config.heartbeat, heartbeat)
	parsed, err := template.New("").Funcs(funcs).ParseFS(templates, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the pages: %w", err)
	}
	return &server{Config: config, reader: reader, guard: g, templates: parsed, now: time.Now}, nil
}

// page is one kind of page.
type page struct {
	// pattern of its path, as http.ServeMux has them.
	pattern string
	// template of what is shown.
	template string
	// tab of the navigation that it belongs to.
	tab string
	// load reads what the template shows, and says what it is called.
	load func(s *server, ctx context.Context, read *watch.Lenient, r *http.Request) (title string, content any, err error)
	// still pages do not change while they are looked at: somebody fills in a form.
	still bool
}

var pages = []page{
	{pattern: "/fleet", template: "fleet", tab: "fleet", load: (*server).fleet},
	{pattern: "/hosts/{namespace}/{name}", template: "host", tab: "fleet", load: (*server).host},
	{pattern: approvePattern, template: "approve", tab: "fleet", load: (*server).approving, still: true},
	{pattern: "/clusters", template: "clusters", tab: "clusters", load: (*server).clusters},
	{pattern: "/clusters/{namespace}/{name}", template: "cluster", tab: "clusters", load: (*server).cluster},
	{pattern: "/pools/{namespace}/{name}", template: "pool", tab: "clusters", load: (*server).pool},
	{pattern: "/placement/{namespace}/{name}", template: "placement", tab: "clusters", load: (*server).placement},
	{pattern: "/lifecycle", template: "lifecycle", tab: "lifecycle", load: (*server).lifecycle},
	{pattern: "/lifecycle/{namespace}/{name}", template: "run", tab: "lifecycle", load: (*server).run},
	{pattern: decidePattern, template: "decide", tab: "lifecycle", load: (*server).deciding, still: true},
	{pattern: "/events", template: "events", tab: "events", load: (*server).events},
	{pattern: "/search", template: "search", load: (*server).search, still: true},
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc("GET "+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, p) })
		if !p.still {
			mux.HandleFunc("GET "+livePrefix+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, p) })
		}
	}
	mux.HandleFunc("POST "+decidePattern, s.decide)
	mux.HandleFunc("POST "+approvePattern, s.approve)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/fleet", http.StatusSeeOther) })
	if files, err := fs.Sub(assets, "assets"); err == nil {
		mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(files)))
	}
	return mux
}

// frame is what surrounds a page.
type frame struct {
	Title, Tab, Cluster, Namespace string
	// Live is where its stream is; empty for a still page.
	Live string
	// Text and Warnings fill in the form of the events, which stays while they change.
	Text     string
	Warnings bool
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
	Content any
}

// show answers with a whole page.
func (s *server) show(w http.ResponseWriter, r *http.Request, p page) {
	s.answer(w, r, p, http.StatusOK, "")
}

// answer renders a page with what went wrong of a change, if something did.
func (s *server) answer(w http.ResponseWriter, r *http.Request, p page, code int, failure string) {
	title, content, found := s.render(r, p, failure)
	if code == http.StatusOK {
		code = found
	}
	f := frame{
		Title: title, Tab: p.tab, Cluster: s.Name, Namespace: s.Namespace,
		Text: r.URL.Query().Get("q"), Warnings: r.URL.Query().Get("warnings") != "",
	}
	if !p.still {
		query := r.URL.Query()
		query.Set(haveParam, version(content))
		f.Live = (&url.URL{Path: livePrefix + r.URL.Path, RawQuery: query.Encode()}).String()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if s.templates.ExecuteTemplate(w, "head", f) == nil {
		_, _ = w.Write(content) //nolint:gosec // G705: html/template has escaped what is in it
		_ = s.templates.ExecuteTemplate(w, "foot", f)
	}
}

// version tells two looks of a page apart.
func version(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// render renders what changes of a page, with the status of the answer. What goes wrong
// is shown in its place.
func (s *server) render(r *http.Request, p page, failure string) (title string, content []byte, code int) {
	read := &watch.Lenient{Reader: s.reader}
	title, shown, err := p.load(s, r.Context(), read, r)
	b := body{Title: title, Refused: refusals(read.Refused), Silent: s.reader.Silent(), CSRF: s.guard.csrf, Failure: failure, Content: shown}
	name := p.template
	if code = http.StatusOK; err != nil {
		code, name = statusOf(err), "error"
		b.Title, b.Content = "Not to be shown", s.Explain(err).Error()
	}
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "notices", b); err == nil {
		err = s.templates.ExecuteTemplate(&out, name, b)
		if err == nil {
			return b.Title, out.Bytes(), code
		}
	}
	return "Not to be shown", []byte("This page cannot be rendered, which is a defect of the console."), http.StatusInternalServerError
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
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest {
		return int(status.Status().Code)
	}
	return http.StatusBadGateway
}
