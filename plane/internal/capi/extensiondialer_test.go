package capi

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func TestDialer(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	dialer := ExtensionDialer{Namespace: own, Services: map[string]string{"beside.ns.svc:" + port: listener.Addr().String()}}
	if os.Geteuid() != 0 {
		rights.Skip(t, "entering a network namespace takes root")
	}
	for host, want := range map[string]string{
		"127.0.0.1":              "",
		"localhost":              "",
		"beside.ns.svc":          "",
		"169.254.169.254":        "must not have the address",
		"::ffff:169.254.169.254": "must not have the address",
		"0.0.0.0":                "must not have the address",
		"224.0.0.1":              "must not have the address",
	} {
		conn, err := dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(host, port))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", host, err, want)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}
