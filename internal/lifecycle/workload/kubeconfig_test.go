package workload

import (
	"strings"
	"testing"
)

// FuzzParse holds that an accepted kubeconfig leads to an https address, which is verified and
// asked directly, and has this process neither run a program nor read a file.
func FuzzParse(f *testing.F) {
	const head = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
	for _, seed := range []string{
		"", "{", head,
		head + "clusters: [{name: a, cluster: {server: 'https://a:1'}}]\nusers: [{name: a, user: {token: b}}]",
		head + "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: /a}}]",
		head + "clusters: [{name: a, cluster: {server: 'http://a', proxy-url: 'socks5://a'}}]\nusers: [{name: a, user: {exec: {command: a, apiVersion: b}}}]",
		head + "clusters: [{name: a, cluster: {server: 'https://a', proxy-url: 'http://b'}}]\nusers: [{name: a, user: {token: b}}]",
		head + "clusters: [{name: a, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}]\nusers: [{name: a, user: {token: b}}]",
		head + "clusters: [{name: a, cluster: {server: 'https://a', tls-server-name: b}}]\nusers: [{name: a, user: {tokenFile: /a}}, {name: a, user: {}}]",
		head + "clusters: [{name: a, cluster: {server: 'HTTPS://a', insecure-skip-tls-verify: true}}]\nusers: [{name: a, user: {client-key: a, client-certificate-data: Yg==}}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse(data)
		if err != nil {
			return
		}
		if !strings.HasPrefix(config.Host, "https://") {
			t.Errorf("accepted the server %q", config.Host)
		}
		if config.Insecure || config.Proxy != nil {
			t.Errorf("accepted who is in between: %s", data)
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" ||
			config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
			t.Errorf("accepted what takes credentials from elsewhere: %s", data)
		}
	})
}
