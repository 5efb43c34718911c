package link

import (
	"crypto/tls"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestServerOf(t *testing.T) {
	for name, tt := range map[string]struct{ url, hash, want, err string }{
		"its own address":        {"https://192.0.2.10:9445", "", "192.0.2.10:9445", ""},
		"that of the cluster":    {"https://:6444", "", "plane.example:6444", ""},
		"another CA":             {"https://192.0.2.10:9445", "sha256:00", "192.0.2.10:9445", ""},
		"nothing":                {"", "", "", "serves no host bundles"},
		"plain HTTP":             {"http://192.0.2.10:9445", "", "", "no https address"},
		"no URL":                 {"https://[", "", "", "no https address"},
		"a digest of the future": {"https://192.0.2.10:9445", "sha512:00", "", "upgrade it"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: tls.VersionTLS12}
			server, err := serverOf("https://plane.example:6443", map[string]string{infrav1.HostBundlesAnnotation: tt.url, infrav1.HostBundlesCAHashAnnotation: tt.hash}, config)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("err = %v", err)
				}
				return
			}
			if err != nil || server.HostPort != tt.want {
				t.Errorf("server %q: %v", server.HostPort, err)
			}
			if (config.VerifyConnection != nil) != (tt.hash != "") || config.InsecureSkipVerify && config.VerifyConnection == nil {
				t.Error("the server is verified by the wrong CA, or by none")
			}
		})
	}
}
