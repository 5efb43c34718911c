package registry

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"testing"
)

var quiet = log.New(io.Discard, "", 0)

func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func mustTrust(t *testing.T, file string) *tls.Config {
	t.Helper()
	config, err := trusting(file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
