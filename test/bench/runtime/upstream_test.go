package runtime

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// serveUpstream serves the same handlers as serveOurs with upstream's server.
func serveUpstream(ctx context.Context, certFile, address string) error {
	catalog := runtimecatalog.New()
	if err := hooksv1.AddToCatalog(catalog); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.New(server.Options{
		Catalog: catalog, Host: host, Port: number, CertDir: filepath.Dir(certFile),
		CertName: "server.crt", KeyName: "server.key",
	})
	if err != nil {
		return err
	}
	for _, h := range []server.ExtensionHandler{
		{Hook: hooksv1.BeforeClusterCreate, Name: "create", HandlerFunc: func(_ context.Context, _ *hooksv1.BeforeClusterCreateRequest, r *hooksv1.BeforeClusterCreateResponse) {
			r.SetStatus(hooksv1.ResponseStatusSuccess)
		}},
		{Hook: hooksv1.GeneratePatches, Name: "patch", HandlerFunc: func(_ context.Context, _ *hooksv1.GeneratePatchesRequest, r *hooksv1.GeneratePatchesResponse) {
			r.SetStatus(hooksv1.ResponseStatusSuccess)
		}},
	} {
		if err := s.AddExtensionHandler(h); err != nil {
			return err
		}
	}
	return s.Start(ctx)
}

// upstreamCaller calls handlers as upstream's client does: a transport with HTTP/2
// for each extension, a deep copy of the request, encoding/json both ways.
type upstreamCaller struct {
	http *http.Client
	url  string
}

func newUpstreamCaller(t testing.TB, url string, ca *hooktest.CA) *upstreamCaller {
	t.Helper()
	c := upstreamCallerFor(url, ca.PEM)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func upstreamCallerFor(url string, ca []byte) *upstreamCaller {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	return &upstreamCaller{url: url, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *upstreamCaller) call(ctx context.Context, name hook.GroupVersionHook, handler string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	const timeout = 10 * time.Second
	request = request.DeepCopyObject().(hooksv1.RequestObject)
	settings := map[string]string{}
	for k, v := range request.GetSettings() {
		settings[k] = v
	}
	request.SetSettings(settings)
	request.GetObjectKind().SetGroupVersionKind(name.GroupVersion().WithKind(name.Hook + "Request"))
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+hook.Path(name, handler)+"?timeout="+timeout.String(), bytes.NewBuffer(body))
	if err != nil {
		return err
	}
	answer, err := c.http.Do(post)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", answer.StatusCode)
	}
	if err := json.NewDecoder(answer.Body).Decode(response); err != nil {
		return err
	}
	if response.GetStatus() != hooksv1.ResponseStatusSuccess {
		return fmt.Errorf("status %s: %s", response.GetStatus(), response.GetMessage())
	}
	return nil
}
