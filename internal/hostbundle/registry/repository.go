package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

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
	// Hasty gives up within seconds where others are waited for two minutes: there is another
	// source to ask.
	Hasty bool
}

// Repository is where bundles are fetched from. It is for one goroutine.
type Repository struct {
	address string
	remote  *remote.Repository
	// tries is how often on end something may fail without any progress.
	tries int
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
	config := o.TLS
	if config == nil {
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
	repository.Client, repository.PlainHTTP = client, loopback(repository.Reference.Host()) && o.TLS == nil && o.CAFile == ""
	repository.MaxMetadataBytes, repository.TagListMaxPages, repository.ReferrerListMaxPages = hostbundle.MaxDocument, maxPages, maxPages
	r := &Repository{address: o.Address, remote: repository, tries: patientTries, wait: pause}
	if o.Hasty {
		r.tries = hastyTries
	}
	return r, nil
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
		return nil, fmt.Errorf("%s is not https, and plain HTTP is for this machine's own loopback", r.URL.Redacted())
	}
	return s.RoundTripper.RoundTrip(r)
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
func (r *Repository) String() string { return r.address }

// Versions are the tags that are Kubernetes versions, from old to new.
func (r *Repository) Versions(ctx context.Context) ([]string, error) {
	var versions []string
	err := r.patiently(ctx, func(ctx context.Context) error {
		versions = nil
		return r.remote.Tags(ctx, "", func(tags []string) error {
			for _, tag := range tags {
				if semver.Canonical(tag) == tag && tag != "" {
					versions = append(versions, tag)
				}
			}
			return nil
		})
	})
	slices.SortFunc(versions, semver.Compare)
	return versions, err
}

// Stage brings what describes the bundle of a tag for an architecture, and its
// signatures. Nothing of it is trusted yet. The error is a *hostbundle.Error when there is no
// such bundle, or when the registry may not be read.
func (r *Repository) Stage(ctx context.Context, s hostbundle.Staging, tag, architecture string) error {
	if err := s.Begin(); err != nil {
		return err
	}
	named, data, err := r.document(ctx, s, tag)
	var missing *notFoundError
	if errors.As(err, &missing) {
		versions, listErr := r.Versions(ctx)
		return errors.Join(&hostbundle.Error{Reason: hostbundle.ReasonNotFound,
			Err: fmt.Errorf("%s has no bundle of %s; it has those of Kubernetes: %s", r, hostbundle.Title(tag), cmp.Or(strings.Join(versions, ", "), "none"))}, listErr)
	}
	if err != nil {
		return err
	}
	signatures, err := r.signatures(ctx, s, named)
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return r.corrupt(named, err)
	}
	for _, d := range index.Manifests {
		if d.Platform == nil || d.Platform.Architecture != architecture {
			continue
		}
		if err := r.manifest(ctx, s, d, false); err != nil {
			return err
		}
	}
	return s.Index(tag, named, signatures)
}

// manifest brings a manifest with its configuration, and its layers when they are asked for.
func (r *Repository) manifest(ctx context.Context, s hostbundle.Staging, d ocispec.Descriptor, layers bool) error {
	_, data, err := r.document(ctx, s, d.Digest.String())
	if err != nil {
		return err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return r.corrupt(d, err)
	}
	small := []ocispec.Descriptor{m.Config}
	if layers {
		small = append(small, m.Layers...)
	}
	for _, blob := range small {
		if blob.Size > hostbundle.MaxDocument {
			return r.corrupt(blob, fmt.Errorf("it has %d bytes, more than any document of a bundle", blob.Size))
		}
		if err := r.Blob(ctx, s, blob, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) signatures(ctx context.Context, s hostbundle.Staging, of ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var found []ocispec.Descriptor
	err := r.patiently(ctx, func(ctx context.Context) error {
		found = nil
		return r.remote.Referrers(ctx, of, hostbundle.SignatureType, func(referrers []ocispec.Descriptor) error {
			found = append(found, referrers...)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	found = found[:min(len(found), maxSignatures)]
	for _, d := range found {
		if err := r.manifest(ctx, s, d, true); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// document reads and keeps a manifest or an index by its tag or digest.
func (r *Repository) document(ctx context.Context, s hostbundle.Staging, reference string) (ocispec.Descriptor, []byte, error) {
	var d ocispec.Descriptor
	var data []byte
	err := r.patiently(ctx, func(ctx context.Context) error {
		found, body, err := r.remote.FetchReference(ctx, reference)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		if found.Size > hostbundle.MaxDocument {
			return r.corrupt(found, fmt.Errorf("it has %d bytes, more than any document of a bundle", found.Size))
		}
		// compares size and digest
		d = found
		data, err = content.ReadAll(body, found)
		return err
	})
	if err != nil {
		return d, nil, err
	}
	return d, data, s.Document(d, data)
}

func (r *Repository) corrupt(d ocispec.Descriptor, err error) error {
	return &hostbundle.Error{Reason: hostbundle.ReasonCorrupt, Err: fmt.Errorf("%s: %s: %w", r, d.Digest, err)}
}
