// Package pki makes and renews the plane's certificates.
//
// One certificate authority signs everything: the serving certificates, one
// client identity for each component, and the client certificates that agents
// ask for. What exists is kept, what is missing or short of life is made anew;
// the files are replaced atomically, and every user of them re-reads them
// without a restart: the API server watches its serving files, the webhook
// server uses controller-runtime's certwatcher, client-go reloads CertFile.
//
// The package imports component and client-go.
package pki
