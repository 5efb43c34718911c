package listener

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pipes is a listener in memory, whose clients have the addresses that they name.
type pipes struct {
	accepts chan accepted
	closed  chan struct{}
	close   func()
	closes  atomic.Int64 // calls of Close of its connections
}

func newPipes() *pipes {
	p := &pipes{accepts: make(chan accepted), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case a := <-p.accepts:
		return a.conn, a.err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.close(); return nil }

func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(from net.Addr) net.Conn {
	client, server := net.Pipe()
	p.accepts <- accepted{conn: &pipe{server, from, &p.closes}}
	return client
}

type pipe struct {
	net.Conn
	from   net.Addr
	closes *atomic.Int64
}

func (p *pipe) RemoteAddr() net.Addr { return p.from }

func (p *pipe) Close() error {
	p.closes.Add(1)
	return p.Conn.Close()
}

func mustAddrPort(t *testing.T, s string) netip.AddrPort {
	t.Helper()
	at, err := netip.ParseAddrPort(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	a.key, der = a.certify(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// certify makes a key and a certificate of it, which signs itself without a parent's key.
func (a *authority) certify(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

func (a *authority) sign(name string) tls.Certificate {
	a.t.Helper()
	key, der := a.certify(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}, a.cert, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
