package hookdocs

import (
	_ "embed"
	"net/http"
)

//go:embed viewer.html
var page []byte

//go:embed viewer.js
var script []byte

//go:embed viewer.css
var style []byte

// policy lets the page load nothing but what this handler serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at / and the documents at /v3/<catalog>.json. Everything
// in it is public.
func Handler() (http.Handler, error) {
	mux := http.NewServeMux()
	serve(mux, "GET /{$}", "text/html; charset=utf-8", page)
	serve(mux, "GET /viewer.js", "text/javascript; charset=utf-8", script)
	serve(mux, "GET /viewer.css", "text/css; charset=utf-8", style)
	for _, name := range Names() {
		document, err := Document(name)
		if err != nil {
			return nil, err
		}
		data, err := document.JSON()
		if err != nil {
			return nil, err
		}
		serve(mux, "GET /v3/"+name+".json", "application/json", data)
	}
	return mux, nil
}

func serve(mux *http.ServeMux, pattern, contentType string, content []byte) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", contentType)
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-cache")
		_, _ = w.Write(content)
	})
}
