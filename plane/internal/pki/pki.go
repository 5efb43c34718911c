package pki

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Lives of what the package signs, and how often it looks for what to renew.
const (
	CALife        = 10 * 365 * 24 * time.Hour
	LeafLife      = 365 * 24 * time.Hour
	CheckInterval = time.Hour

	// backdate lets a peer whose clock is behind accept a new certificate.
	backdate = time.Hour
)

// Options configure an Authority.
type Options struct {
	// Dir holds all files; it is made with mode 0700. Required.
	Dir string

	// ServerIPs and ServerNames are added to the serving certificate of the
	// API server, which always covers the loopback names and kubernetes.*.
	ServerIPs   []net.IP
	ServerNames []string

	// Clients are the client certificates to keep.
	Clients []Client

	// Servers are serving certificates to keep, beside those of the API server and
	// of the plane's webhooks.
	Servers []Server

	// AdminServer is the URL that the administrator's kubeconfig points at.
	AdminServer string

	// AdminKubeconfig is where that kubeconfig is written, with mode 0600.
	AdminKubeconfig string

	// Clock tells the time. Default the system's.
	Clock clock.WithTicker
}

// Client is an identity of a component.
type Client struct {
	// Name names the files.
	Name string
	// User and Groups are who the API server takes the holder for.
	User   string
	Groups []string
}

// Server is a serving certificate of a program beside the plane. It always covers
// the loopback names.
type Server struct {
	// Name names the directory.
	Name string
	// DNSNames are covered, too.
	DNSNames []string
}

// Admin is the identity in the administrator's kubeconfig, the only one in
// system:masters.
var Admin = Client{Name: "admin", User: "kubernetes-admin", Groups: []string{"system:masters"}}

// Authority is the component that owns the files. Its methods that return
// paths may be used at any time, the files exist after Init.
type Authority struct {
	component.Task
	opts Options
}

// New returns an Authority that has written nothing yet.
func New(opts Options) *Authority {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Authority{opts: opts}
}

// Component is the authority as a part of the plane.
func (a *Authority) Component() component.Component {
	return component.Component{Name: "pki", Init: a.Init, Start: a.Start, Run: a}
}

// Init makes what is missing and renews what is short of life.
func (a *Authority) Init(context.Context) error {
	dirs := []string{a.webhookDir()}
	for _, s := range a.opts.Servers {
		dirs = append(dirs, a.ServerCertDir(s.Name))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the certificate directory: %w", err)
		}
	}
	return a.renew()
}

// Start keeps renewing, every CheckInterval.
func (a *Authority) Start(context.Context) error {
	ticker := a.opts.Clock.NewTicker(CheckInterval)
	a.Go(func(ctx context.Context) error {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C():
				// Two thirds of a life are left to try again in.
				if err := a.renew(); err != nil {
					klog.Background().WithName("pki").Error(err, "Cannot renew certificates, trying again", "after", CheckInterval)
				}
			}
		}
	})
	return nil
}

// renew brings every file up to date. Each step is complete in itself, so that
// a crash between any two is repaired by the next call.
func (a *Authority) renew() error {
	if err := ensureKey(a.ServiceAccountKeyFile()); err != nil {
		return err
	}
	ca, err := a.ensureCA()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range a.leaves() {
		errs = append(errs, a.ensureLeaf(ca, l))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return a.writeAdminKubeconfig()
}

// leaf is a certificate signed by the CA.
type leaf struct {
	cert, key string
	template  x509.Certificate
}

func (a *Authority) leaves() []leaf {
	leaves := []leaf{
		{cert: a.ServingCertFile(), key: a.ServingKeyFile(), template: a.serverTemplate("kube-apiserver", a.opts.ServerIPs, a.opts.ServerNames)},
		{
			cert: filepath.Join(a.webhookDir(), "tls.crt"), key: filepath.Join(a.webhookDir(), "tls.key"),
			template: a.serverTemplate("slipway-webhooks", nil, nil),
		},
	}
	for _, s := range a.opts.Servers {
		dir := a.ServerCertDir(s.Name)
		leaves = append(leaves, leaf{
			cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"),
			template: a.serverTemplate(s.Name, nil, s.DNSNames),
		})
	}
	for _, c := range append([]Client{Admin}, a.opts.Clients...) {
		leaves = append(leaves, leaf{cert: a.file(c.Name + ".crt"), key: a.file(c.Name + ".key"), template: clientTemplate(c)})
	}
	return leaves
}

// ensureCA returns the CA. A renewed one keeps its key and name, so that what
// it signed before stays valid, also for those who still hold the old one.
func (a *Authority) ensureCA() (*signer, error) {
	key, err := loadOrMakeKey(a.CAKeyFile())
	if err != nil {
		return nil, err
	}
	cert, err := loadCert(a.CACertFile())
	if err != nil {
		return nil, err
	}
	if cert != nil && samePublicKey(cert, key) && !a.short(cert) {
		return &signer{cert: cert, key: key}, nil
	}
	template := caTemplate()
	a.setLife(&template, CALife)
	der, err := sign(&template, &template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the CA certificate: %w", err)
	}
	if err := writePEM(a.CACertFile(), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	cert, err = x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the CA certificate: %w", err)
	}
	return &signer{cert: cert, key: key}, nil
}

// ensureLeaf keeps the private key over renewals. Key first, certificate
// second: a certificate on disk always has its key beside it.
func (a *Authority) ensureLeaf(ca *signer, l leaf) error {
	key, err := loadOrMakeKey(l.key)
	if err != nil {
		return err
	}
	cert, err := loadCert(l.cert)
	if err != nil {
		return err
	}
	if cert != nil && samePublicKey(cert, key) && !a.short(cert) && ca.signed(cert) && matches(cert, &l.template) {
		return nil
	}
	a.setLife(&l.template, LeafLife)
	if l.template.NotAfter.After(ca.cert.NotAfter) {
		l.template.NotAfter = ca.cert.NotAfter
	}
	der, err := sign(&l.template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", l.cert, err)
	}
	return writePEM(l.cert, "CERTIFICATE", der)
}

func (a *Authority) setLife(t *x509.Certificate, life time.Duration) {
	now := a.opts.Clock.Now()
	t.NotBefore, t.NotAfter = now.Add(-backdate), now.Add(life)
}

// short tells whether less than a third of the certificate's life is left.
func (a *Authority) short(cert *x509.Certificate) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return cert.NotAfter.Sub(a.opts.Clock.Now()) < life/3
}

type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (s *signer) signed(cert *x509.Certificate) bool {
	return cert.CheckSignatureFrom(s.cert) == nil
}
