package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/semver"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

const (
	// Scheme is how the addresses of repositories begin.
	Scheme = "oci://"
	// ManagementRepository is the repository of a management cluster that serves bundles.
	ManagementRepository = "host-bundles"
)

const (
	dialTimeout   = 10 * time.Second
	answerTimeout = time.Minute
	// maxPages bounds lists that a server hands out in pages.
	maxPages = 32
	// maxSignatures bounds those of one bundle that are looked at.
	maxSignatures = 16
)

// Options of a repository.
type Options struct {
	// Address is oci://HOST[:PORT]/REPOSITORY.
	Address string
	// CAFile holds CAs, in PEM form, that are trusted besides the system's.
	CAFile string
	// ConfigFile holds credentials, as docker login writes them.
	ConfigFile string
	// TLS is used instead of CAFile and the system's CAs. May be nil.
	TLS *tls.Config
	// Hasty gives up within seconds where others are waited for two minutes, and a server that is busy
	// within two minutes instead of two hours: there is another source.
	Hasty bool
}

// Repository is where bundles are fetched from. It is for one goroutine.
type Repository struct {
	server
	remote *remote.Repository
}

// server is what content comes from.
type server struct {
	address string
	client  remote.Client
	// locate says where a server has the content of a digest.
	locate func(context.Context, ocispec.Descriptor) (context.Context, string)
	// tries is how often on end something may fail without any progress.
	tries int
	// queue is how long the server may say that it is busy, busy how long it has said so.
	queue, busy time.Duration
	// wait is how long to wait after so many failures on end; for tests.
	wait func(failures int) time.Duration
}

// New makes a client; it sends nothing.
func New(o Options) (*Repository, error) {
	reference, ok := strings.CutPrefix(o.Address, Scheme)
	if !ok {
		return nil, fmt.Errorf("%q: want %sHOST[:PORT]/REPOSITORY", o.Address, Scheme)
	}
	repository, err := remote.NewRepository(reference)
	if err != nil || repository.Reference.Reference != "" {
		return nil, fmt.Errorf("%q: want %sHOST[:PORT]/REPOSITORY, without a tag or digest: versions are the tags", o.Address, Scheme)
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	repository.Client, repository.PlainHTTP = client, loopback(repository.Reference.Host()) && o.TLS == nil && o.CAFile == ""
	repository.MaxMetadataBytes, repository.TagListMaxPages, repository.ReferrerListMaxPages = hostbundle.MaxDocument, maxPages, maxPages
	return &Repository{server: o.server(client, locateBlob(repository)), remote: repository}, nil
}

// locateBlob says where a registry has a blob, and which right a token must have.
func locateBlob(r *remote.Repository) func(context.Context, ocispec.Descriptor) (context.Context, string) {
	return func(ctx context.Context, d ocispec.Descriptor) (context.Context, string) {
		scheme := "https"
		if r.PlainHTTP {
			scheme = "http"
		}
		return auth.AppendRepositoryScope(ctx, r.Reference, auth.ActionPull),
			fmt.Sprintf("%s://%s/v2/%s/blobs/%s", scheme, r.Reference.Host(), r.Reference.Repository, d.Digest)
	}
}

func (o Options) server(client remote.Client, locate func(context.Context, ocispec.Descriptor) (context.Context, string)) server {
	s := server{address: o.Address, client: client, locate: locate, tries: patientTries, queue: longQueue, wait: pause}
	if o.Hasty {
		s.tries, s.queue = hastyTries, shortQueue
	}
	return s
}

// client takes the proxies of the environment, such as HTTPS_PROXY.
func (o Options) client() (*auth.Client, error) {
	config := o.TLS
	if config == nil {
		var err error
		if config, err = trusting(o.CAFile); err != nil {
			return nil, err
		}
	}
	client := &auth.Client{Client: &http.Client{Transport: safe{&http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 10 * time.Second,
	}}}, Cache: auth.NewCache()}
	client.SetUserAgent("slipway")
	if o.ConfigFile != "" {
		if _, err := os.Stat(o.ConfigFile); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		store, err := credentials.NewStore(o.ConfigFile, credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: want credentials as docker login writes them: %w", o.ConfigFile, err)
		}
		client.Credential = credentials.Credential(store)
	}
	return client, nil
}

// trusting are the system's CAs and those of a file.
func trusting(file string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return config, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	if config.RootCAs, err = x509.SystemCertPool(); err != nil {
		config.RootCAs = x509.NewCertPool()
	}
	if !config.RootCAs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return config, nil
}

// safe sends nothing in the clear over a network, wherever a registry leads: to a server of
// tokens, or of content.
type safe struct{ http.RoundTripper }

func (s safe) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Host) {
		return nil, &hostbundle.Error{Reason: hostbundle.ReasonDenied,
			Err: fmt.Errorf("%s is not https, and plain HTTP is for this machine's own loopback", r.URL.Redacted())}
	}
	response, err := s.RoundTripper.RoundTrip(r)
	if left, ok := r.Context().Value(budgetKey{}).(*budget); ok && err == nil {
		response.Body = metered{response.Body, left}
	}
	return response, err
}

func loopback(hostPort string) bool {
	host := hostPort
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback() || host == "localhost"
}

// String is the address.
func (r *server) String() string { return r.address }

// Versions are the tags that are Kubernetes versions, from old to new.
func (r *Repository) Versions(ctx context.Context) ([]string, error) {
	var versions []string
	err := r.patiently(withBudget(ctx, maxDescription), brief(func(ctx context.Context) error {
		versions = nil
		return r.remote.Tags(ctx, "", func(tags []string) error {
			for _, tag := range tags {
				if semver.Canonical(tag) == tag && tag != "" {
					versions = append(versions, tag)
				}
			}
			return nil
		})
	}))
	slices.SortFunc(versions, semver.Compare)
	return versions, err
}

// Stage downloads what describes the bundle of a tag for an architecture, and its signatures.
// Signatures come first, and nothing is written before one by s.Keys holds. The error is a
// *hostbundle.Error when there is no such bundle, when it must not be used, or when the
// registry may not be read.
func (r *Repository) Stage(ctx context.Context, s hostbundle.Staging, tag, architecture string) error {
	r.busy = 0
	described := &description{Repository: r}
	ctx = withBudget(ctx, maxDescription)
	named, data, err := described.document(ctx, tag)
	var missing *notFoundError
	if errors.As(err, &missing) {
		versions, listErr := r.Versions(ctx)
		return errors.Join(&hostbundle.Error{Reason: hostbundle.ReasonNotFound,
			Err: fmt.Errorf("%s has no bundle of %s; it has those of Kubernetes: %s", r, hostbundle.Title(tag), cmp.Or(strings.Join(versions, ", "), "none"))}, listErr)
	}
	if err != nil {
		return err
	}
	signatures, notes, err := described.signatures(ctx, named)
	if err != nil {
		return err
	}
	if err := s.Keys.Verify(tag, named.Digest, notes); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	// From here on every document is what a trusted digest says.
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return r.corrupt(named, err)
	}
	ofArchitecture := func(d ocispec.Descriptor) bool { return d.Platform != nil && d.Platform.Architecture == architecture }
	if i := slices.IndexFunc(index.Manifests, ofArchitecture); i >= 0 {
		m, err := described.manifest(ctx, index.Manifests[i])
		if err != nil {
			return err
		}
		if _, err := described.blob(ctx, m.Config); err != nil {
			return err
		}
	}
	return described.write(s, tag, named, signatures)
}

// description is in memory what describes a bundle.
type description struct {
	*Repository
	documents []document
}

type document struct {
	ocispec.Descriptor
	data []byte
}

func (d *description) write(s hostbundle.Staging, tag string, named ocispec.Descriptor, signatures []ocispec.Descriptor) error {
	if err := s.Begin(); err != nil {
		return err
	}
	for _, document := range d.documents {
		if err := s.Document(document.Descriptor, document.data); err != nil {
			return err
		}
	}
	return s.Index(tag, named, signatures)
}

// signatures returns those of an index, and the notes in them.
func (d *description) signatures(ctx context.Context, of ocispec.Descriptor) (found []ocispec.Descriptor, notes [][]byte, err error) {
	enough := errors.New("enough")
	err = d.patiently(ctx, brief(func(ctx context.Context) error {
		found = nil
		err := d.remote.Referrers(ctx, of, hostbundle.SignatureType, func(referrers []ocispec.Descriptor) error {
			if found = append(found, referrers...); len(found) > maxSignatures {
				found = found[:maxSignatures]
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			return nil
		}
		return err
	}))
	for _, signature := range found {
		var m ocispec.Manifest
		if err == nil {
			m, err = d.manifest(ctx, signature)
		}
		if err != nil {
			return nil, nil, err
		}
		if len(m.Layers) != 1 || m.Subject == nil || m.Subject.Digest != of.Digest {
			continue // no signature of this bundle
		}
		note, noteErr := d.blob(ctx, m.Layers[0])
		if err = noteErr; err == nil {
			notes = append(notes, note)
		}
	}
	return found, notes, err
}

func (d *description) manifest(ctx context.Context, of ocispec.Descriptor) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	_, data, err := d.document(ctx, of.Digest.String())
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, d.corrupt(of, err)
	}
	return m, nil
}

// Document fetches a manifest or an index by its tag or digest, and compares it with the digest
// that the registry names.
func (r *Repository) Document(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	r.busy = 0
	of, data, err := (&description{Repository: r}).document(ctx, reference)
	return of, data, found(err)
}

// document brings a manifest or an index by its tag or digest.
func (d *description) document(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	return d.small(ctx, func(ctx context.Context) (ocispec.Descriptor, io.ReadCloser, error) {
		return d.remote.FetchReference(ctx, reference)
	})
}

// blob brings content that is small.
func (d *description) blob(ctx context.Context, of ocispec.Descriptor) ([]byte, error) {
	_, data, err := d.small(ctx, func(ctx context.Context) (ocispec.Descriptor, io.ReadCloser, error) {
		if err := of.Digest.Validate(); err != nil {
			return of, nil, d.corrupt(of, err)
		}
		response, err := d.request(ctx, 0, of)
		if err != nil {
			return of, nil, err
		}
		return of, response.Body, nil
	})
	return data, err
}

// small reads what is small and compares it with its digest.
func (d *description) small(ctx context.Context, fetch func(context.Context) (ocispec.Descriptor, io.ReadCloser, error)) (of ocispec.Descriptor, data []byte, err error) {
	err = d.patiently(ctx, brief(func(ctx context.Context) error {
		found, body, err := fetch(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		switch {
		case found.Digest.Algorithm() != digest.SHA256 || found.Digest.Validate() != nil:
			return d.corrupt(found, fmt.Errorf("want a digest of %s", digest.SHA256))
		case found.Size < 0 || found.Size > hostbundle.MaxDocument:
			return d.corrupt(found, fmt.Errorf("it has %d bytes, more than any document of a bundle", found.Size))
		}
		// compares size and digest
		of = found
		data, err = content.ReadAll(body, found)
		if errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) {
			return d.corrupt(found, err)
		}
		return err
	}))
	if err != nil {
		return of, nil, err
	}
	d.documents = append(d.documents, document{of, data})
	return of, data, nil
}

func (r *server) corrupt(d ocispec.Descriptor, err error) error {
	return &hostbundle.Error{Reason: hostbundle.ReasonCorrupt, Err: fmt.Errorf("%s: %s: %w", r, d.Digest, err)}
}
