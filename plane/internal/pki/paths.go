package pki

import "path/filepath"

func (a *Authority) file(name string) string { return filepath.Join(a.opts.Dir, name) }

// CACertFile is the certificate of the authority, for clients and for the API
// server to verify clients with.
func (a *Authority) CACertFile() string { return a.file("ca.crt") }

// CAKeyFile is the key that signs; the CSR controller uses it too.
func (a *Authority) CAKeyFile() string { return a.file("ca.key") }

// ServingCertFile is the API server's serving certificate.
func (a *Authority) ServingCertFile() string { return a.file("apiserver.crt") }

// ServingKeyFile belongs to ServingCertFile.
func (a *Authority) ServingKeyFile() string { return a.file("apiserver.key") }

// ServiceAccountKeyFile signs and verifies service-account tokens.
func (a *Authority) ServiceAccountKeyFile() string { return a.file("sa.key") }

// WebhookCertDir holds tls.crt and tls.key of the webhook server.
func (a *Authority) WebhookCertDir() string { return a.webhookDir() }

// ServerCertDir holds tls.crt and tls.key of the Server of that name.
func (a *Authority) ServerCertDir(server string) string { return a.file("server-" + server) }

func (a *Authority) webhookDir() string { return a.file("webhook") }
