package bundleserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/semver"

	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
)

// Repository is the name under which bundles are served; agents know it as
// registry.ManagementRepository.
const Repository = registry.ManagementRepository

const (
	// stall is how long a client may take no content before its download ends.
	stall = 30 * time.Second
	// retryLeast and retrySpread say when who is one too many shall come again, in seconds;
	// at random, so that hosts which came together do not do so again.
	retryLeast, retrySpread = 2, 6
)

// handler answers one request after another; it keeps nothing of a client.
type handler struct {
	hosts   Hosts
	shelf   *shelf
	limits  *limits
	metrics *metrics
	log     logr.Logger
}

func (h *handler) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/"+Repository+"/tags/list", h.tags)
	mux.HandleFunc("GET /v2/"+Repository+"/manifests/{reference}", h.manifest)
	mux.HandleFunc("GET /v2/"+Repository+"/referrers/{digest}", h.referrers)
	mux.HandleFunc("GET /v2/"+Repository+"/blobs/{digest}", h.blob)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &patient{ResponseWriter: w, control: http.NewResponseController(w)}
		if err := h.hosts.Check(r.Context(), r.TLS); err != nil {
			h.refuse(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var denied *DeniedError
	if errors.As(err, &denied) {
		h.log.V(1).Info("Refused a client", "from", r.RemoteAddr, "why", denied.Error())
		h.metrics.requests.WithLabelValues("denied").Inc()
		fail(w, http.StatusForbidden, "DENIED", denied.Error())
		return
	}
	h.broken(w, err)
}

// broken is for what the client has no part in. It may try again.
func (h *handler) broken(w http.ResponseWriter, err error) {
	h.log.Error(err, "Cannot serve host bundles")
	h.metrics.requests.WithLabelValues("error").Inc()
	w.Header().Set("Retry-After", strconv.Itoa(retryLeast+retrySpread))
	fail(w, http.StatusServiceUnavailable, "UNAVAILABLE", "the server cannot read what it has; its log says why")
}

func (h *handler) tags(w http.ResponseWriter, _ *http.Request) {
	catalog, err := h.shelf.catalog()
	if err != nil {
		h.broken(w, err)
		return
	}
	tags := make([]string, 0, len(catalog.Versions))
	for version := range catalog.Versions {
		tags = append(tags, version)
	}
	slices.SortFunc(tags, func(a, b string) int { return cmp.Or(semver.Compare(a, b), cmp.Compare(a, b)) })
	h.answer(w, "application/json", struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{Repository, tags})
}

func (h *handler) referrers(w http.ResponseWriter, r *http.Request) {
	catalog, err := h.shelf.catalog()
	if err != nil {
		h.broken(w, err)
		return
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	wanted := r.URL.Query().Get("artifactType")
	for _, d := range catalog.Signatures[digest.Digest(r.PathValue("digest"))] {
		if wanted == "" || wanted == d.ArtifactType {
			index.Manifests = append(index.Manifests, d)
		}
	}
	if wanted != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	h.answer(w, ocispec.MediaTypeImageIndex, index)
}

func (h *handler) answer(w http.ResponseWriter, mediaType string, content any) {
	w.Header().Set("Content-Type", mediaType)
	h.metrics.requests.WithLabelValues("served").Inc()
	_ = json.NewEncoder(w).Encode(content) //nolint:errchkjson // who went away reads no error either
}

func (h *handler) manifest(w http.ResponseWriter, r *http.Request) {
	catalog, err := h.shelf.catalog()
	if err != nil {
		h.broken(w, err)
		return
	}
	reference := r.PathValue("reference")
	of := digest.Digest(reference)
	if version, ok := catalog.Versions[reference]; ok {
		of = version.Digest
	}
	document, ok := catalog.Documents[of]
	if !ok {
		h.metrics.requests.WithLabelValues("notFound").Inc()
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", fmt.Sprintf("no bundle %q was loaded here", reference))
		return
	}
	h.serve(w, r, document)
}

func (h *handler) blob(w http.ResponseWriter, r *http.Request) {
	catalog, err := h.shelf.catalog()
	if err != nil {
		h.broken(w, err)
		return
	}
	blob, ok := catalog.Blobs[digest.Digest(r.PathValue("digest"))]
	if !ok {
		h.metrics.requests.WithLabelValues("notFound").Inc()
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "no bundle with this content was loaded here")
		return
	}
	if r.Method == http.MethodGet {
		release, ok := h.limits.take(r.TLS.PeerCertificates[0].Subject.CommonName)
		if !ok {
			h.metrics.requests.WithLabelValues("tooMany").Inc()
			w.Header().Set("Retry-After", strconv.Itoa(retryLeast+rand.IntN(retrySpread)))
			// A connection that waits costs memory, too.
			w.Header().Set("Connection", "close")
			fail(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "so many downloads are under way; come again")
			return
		}
		defer release()
	}
	h.serve(w, r, blob)
}

// serve sends content from the disk, or the ranges of it that are asked for. Content of a
// digest never changes: the digest is its tag.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, descriptor ocispec.Descriptor) {
	f, err := h.shelf.open(descriptor.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "it was removed here just now")
		return
	}
	if err != nil {
		h.broken(w, err)
		return
	}
	defer func() { _ = f.Close() }()
	header := w.Header()
	header.Set("Content-Type", descriptor.MediaType)
	header.Set("Docker-Content-Digest", descriptor.Digest.String())
	header.Set("ETag", `"`+descriptor.Digest.String()+`"`)
	h.metrics.requests.WithLabelValues("served").Inc()
	counted := &counting{ResponseWriter: w}
	http.ServeContent(counted, r, "", time.Time{}, f)
	h.metrics.sent.Add(float64(counted.sent))
}

// fail writes an error as the distribution API has it.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": strings.TrimSpace(message)}}}) //nolint:errchkjson // who went away reads no error either
}

// patient gives a client time for each piece of content, however many there are.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(data []byte) (int, error) {
	// A connection without deadlines is none of a network.
	_ = p.control.SetWriteDeadline(time.Now().Add(stall))
	return p.ResponseWriter.Write(data)
}

// counting counts what was sent.
type counting struct {
	http.ResponseWriter
	sent int64
}

func (c *counting) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data)
	c.sent += int64(n)
	return n, err
}
