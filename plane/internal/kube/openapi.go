package kube

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/server"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	apiregistration "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"
)

// openAPIIndex is the path of the index of OpenAPI v3 documents, one for each group version.
const openAPIIndex = "/openapi/v3"

// replaceOpenAPIIndex serves the index of the server of custom resources by an index. kube-aggregator
// reads it once a second in the same process. Upstream's handler publishes the name of a new group before
// its document, and a read in between ends the process: see
// docs/upstream/kube-openapi-index.md. It is to
// be called between PrepareRun, which installs upstream's handler, and Run, which publishes documents.
func replaceOpenAPIIndex(chain *aggregator.APIAggregator) error {
	var resources *server.GenericAPIServer // the last one in the chain
	for delegate := chain.GenericAPIServer.NextDelegate(); delegate != nil; delegate = delegate.NextDelegate() {
		if generic, ok := delegate.(*server.GenericAPIServer); ok {
			resources = generic
		}
	}
	if resources == nil || resources.OpenAPIV3VersionedService == nil {
		return errors.New("the server of custom resources has no OpenAPI documents")
	}
	built, err := newIndex(resources.OpenAPIV3VersionedService, chain.APIRegistrationInformers.Apiregistration().V1().APIServices().Lister())
	if err != nil {
		return err
	}
	mux := resources.Handler.NonGoRestfulMux
	mux.Unregister(openAPIIndex)
	mux.Handle(openAPIIndex, built)
	return nil
}

// index answers with the paths of the documents that a service holds, as upstream's HandleDiscovery does.
// It takes the digest of each document from the document's own handler, which holds the service's lock.
type index struct {
	service *handler3.OpenAPIService
	// builtIn are the group versions that are there from the start, such as
	// apis/apiextensions.k8s.io/v1.
	builtIn []string
	// registered lists the APIServices, one for each group version of custom resources.
	registered apiregistration.APIServiceLister
}

// newIndex asks upstream's handler for the group versions that the service has now. Nobody may publish
// documents meanwhile.
func newIndex(service *handler3.OpenAPIService, registered apiregistration.APIServiceLister) (*index, error) {
	request, err := http.NewRequest(http.MethodGet, openAPIIndex, nil) //nolint:noctx // it is answered from memory
	if err != nil {
		return nil, err
	}
	answer := &recorder{header: http.Header{}}
	service.HandleDiscovery(answer, request)
	var discovery handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(answer.body.Bytes(), &discovery); err != nil {
		return nil, fmt.Errorf("index of OpenAPI documents: %w", err)
	}
	i := &index{service: service, registered: registered}
	for name := range discovery.Paths {
		i.builtIn = append(i.builtIn, name)
	}
	return i, nil
}

// ServeHTTP implements http.Handler. A group version that is registered and has no document yet is left
// out: the aggregator asks again after a second.
func (i *index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names := i.builtIn
	services, err := i.registered.List(labels.Everything())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, s := range services {
		names = append(names[:len(names):len(names)], path.Join("apis", s.Spec.Group, s.Spec.Version))
	}
	discovery := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, name := range names {
		if digest := i.digest(r, name); digest != "" {
			at := url.URL{Path: path.Join(openAPIIndex, name), RawQuery: url.Values{"hash": {digest}}.Encode()}
			discovery.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: at.String()}
		}
	}
	body, err := json.Marshal(discovery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(body))))
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, openAPIIndex, time.Time{}, bytes.NewReader(body))
}

// digest of a group version's document; empty when the service has none. With HEAD no document is copied.
func (i *index) digest(r *http.Request, name string) string {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodHead, path.Join(openAPIIndex, name), nil)
	if err != nil {
		return ""
	}
	request.Header.Set("Accept", "application/json")
	answer := &recorder{header: http.Header{}}
	i.service.HandleGroupVersion(answer, request)
	digest, err := strconv.Unquote(answer.header.Get("Etag"))
	if err != nil {
		return ""
	}
	return digest
}

// recorder keeps an answer in memory.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// Write implements http.ResponseWriter.
func (r *recorder) Write(data []byte) (int, error) { return r.body.Write(data) }

// WriteHeader implements http.ResponseWriter.
func (*recorder) WriteHeader(int) {}
