package enroll

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	dialTimeout      = 5 * time.Second
	keepAlive        = 15 * time.Second
	handshakeTimeout = 5 * time.Second
)

// following returns a configuration whose new connections present the
// certificate that current returns, and a function that closes the open ones:
// the server checks the certificate of a connection on every request.
func following(server *rest.Config, current func() *tls.Certificate) (*rest.Config, func(), error) {
	tlsConfig, err := rest.TLSConfigFor(server)
	if err != nil {
		return nil, nil, err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return current(), nil }
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	transport := utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: handshakeTimeout,
		TLSClientConfig:     tlsConfig,
		DialContext:         dialer.DialContext,
	})
	return &rest.Config{Host: server.Host, APIPath: server.APIPath, Transport: transport}, dialer.CloseAll, nil
}
