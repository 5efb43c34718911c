package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	// renewal is what is left of a certificate of 30 days when cert-manager renews it.
	renewal = 10 * 24 * time.Hour
	dialing = 10 * time.Second
)

// connection checks what is below the calls of handlers.
func (r *Report) connection(ctx context.Context, o Options) {
	p, err := newProbe(o)
	if err != nil {
		r.add("connection", err)
		return
	}
	r.addOutcome("TLS version", p.oldTLS(ctx))
	r.addOutcome("serving certificate", p.servingCertificate(ctx))
	r.addOutcome("client certificate", p.anybody(ctx))
	r.addOutcome("request ID", p.requestID(ctx))
}

// probe makes connections of its own to an extension.
type probe struct {
	base *url.URL
	// address is where the extension listens.
	address string
	// config is how it is trusted, and the certificate of the caller.
	config *tls.Config
}

func newProbe(o Options) (*probe, error) {
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: base.Hostname(), MinVersion: tls.VersionTLS12}
	if len(o.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.CABundle) {
			return nil, errors.New("the CA bundle has no certificate in PEM form")
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &probe{base: base, address: net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), "443")), config: config}, nil
}

func (p *probe) handshake(ctx context.Context, config *tls.Config) (tls.ConnectionState, error) {
	ctx, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState(), nil
}

// oldTLS must be refused: versions 1.0 and 1.1 are retired (RFC 8996).
func (p *probe) oldTLS(ctx context.Context) outcome {
	old := p.config.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if state, err := p.handshake(ctx, old); err == nil {
		return failed("it accepts %s, want TLS 1.2 or newer", tls.VersionName(state.Version))
	}
	return outcome{}
}

func (p *probe) servingCertificate(ctx context.Context) outcome {
	state, err := p.handshake(ctx, p.config)
	if err != nil {
		return outcome{err: err}
	}
	if end := state.PeerCertificates[0].NotAfter; time.Until(end) < renewal {
		return warned("it ends at %s: let something renew it, and read it again without a restart", end.UTC().Format(time.RFC3339))
	}
	return outcome{}
}

// anybody may read what a cluster is made of, or fill an extension's memory, where the
// caller needs no certificate.
func (p *probe) anybody(ctx context.Context) outcome {
	without := p.config.Clone()
	without.Certificates = nil
	code, _, err := p.discover(ctx, without, "")
	if err == nil && code == http.StatusOK {
		return warned("callers need no client certificate: who reaches the port can call every handler")
	}
	return outcome{}
}

// requestID should come back: it tells a caller that an answer is to its own request.
func (p *probe) requestID(ctx context.Context) outcome {
	const id = "conformance-check"
	_, repeated, err := p.discover(ctx, p.config, id)
	if err != nil {
		return outcome{err: err}
	}
	switch repeated {
	case id:
		return outcome{}
	case "":
		return warned("the answer does not repeat the header %s, by which callers know that it is theirs", hook.RequestIDHeader)
	}
	return failed("the answer has another %s than the request", hook.RequestIDHeader)
}

// discover makes one discovery on a connection of its own, and returns the HTTP status
// and the request ID of the answer.
func (p *probe) discover(ctx context.Context, config *tls.Config, id string) (code int, repeated string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	target := registry.HookURL(p.base, capi.Discovery.Definition().Name, "", dialing)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader("{}"))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if id != "" {
		request.Header.Set(hook.RequestIDHeader, id)
	}
	answer, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	return answer.StatusCode, answer.Header.Get(hook.RequestIDHeader), answer.Body.Close()
}
