package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/kube"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// confidential is the content of a Secret, and found in no file if all is well.
const confidential = "the-launch-code-is-1-2-3-4-5"

// anonymous asks without credentials: probes are answered, nothing else is.
func (p *plane) anonymous(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", statedir.Kubeconfig(p.dir))
	must(t, err)
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	must(t, err)
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusOK,
		"/version": http.StatusUnauthorized, "/api": http.StatusUnauthorized, "/openapi/v3": http.StatusUnauthorized,
		"/apis/infrastructure.slipway.dev": http.StatusUnauthorized, "/readyz/etcd": http.StatusUnauthorized,
		"/api/v1/namespaces/kube-public/configmaps/cluster-info": http.StatusUnauthorized,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s without credentials: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// flooded makes more connections than there may be of clients without identity, none of which sends a byte. Those of
// an administrator, who has a certificate, and of a service account, which has a token, are kept.
func (p *plane) flooded(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", statedir.Kubeconfig(p.dir))
	must(t, err)
	// A plane has no controller that makes a default one.
	_, err = p.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "flooded"}}, metav1.CreateOptions{})
	must(t, err)
	token, err := p.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(t.Context(), "flooded", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	account := rest.AnonymousClientConfig(config)
	account.BearerToken = token.Status.Token
	// A later client is served once the plane has accepted the whole flood.
	after := rest.CopyConfig(config)
	after.NextProtos = []string{"http/1.1"} // a transport of its own, and so a connection
	get := map[string]func() (reused bool){}
	for name, config := range map[string]*rest.Config{"the administrator": config, "the service account": account, "a later client": after} {
		client, err := rest.HTTPClientFor(config)
		must(t, err)
		get[name] = func() (reused bool) {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", nil)
			must(t, err)
			resp, err := client.Do(req)
			must(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			must(t, errors.Join(err, resp.Body.Close()))
			if resp.StatusCode != http.StatusOK {
				t.Errorf("GET /version of %s: %s", name, resp.Status)
			}
			return reused
		}
		if name != "a later client" {
			get[name]()
		}
	}
	for range network.Local.Anonymous + 100 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(config.Host, "https://"))
		must(t, err)
		defer c.Close()
	}
	get["a later client"]()
	for name, get := range get {
		if !get() {
			t.Errorf("%s lost the connection", name)
		}
	}
}

// audited writes a Secret and reads in the audit log who did so, and not what.
func (p *plane) audited(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "audited"}, StringData: map[string]string{"key": confidential}}
	_, err := p.client.CoreV1().Secrets(testNamespace).Create(t.Context(), secret, metav1.CreateOptions{})
	must(t, err)
	path := filepath.Join(p.dir, "apiserver", kube.AuditLog)
	eventually(t, "the audit log tells of it", func(context.Context) (bool, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		for line := range bytes.Lines(data) {
			var event struct {
				Verb      string
				User      struct{ Username string }
				ObjectRef struct{ Resource, Namespace, Name string }
			}
			if err := json.Unmarshal(line, &event); err != nil {
				return false, nil // a line that is being written
			}
			if event.Verb == "create" && event.ObjectRef.Resource == "secrets" && event.ObjectRef.Name == "audited" {
				return event.User.Username == "kubernetes-admin" && event.ObjectRef.Namespace == testNamespace, nil
			}
		}
		return false, nil
	})
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the audit log has mode %o", info.Mode().Perm())
	}
}

// confidentialIsNowhere looks for the content of Secrets in every file of the plane.
func (p *plane) confidentialIsNowhere(t *testing.T) {
	must(t, filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range []string{confidential, base64.StdEncoding.EncodeToString([]byte(confidential))} {
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s holds the content of a Secret", path)
			}
		}
		return err
	}))
}

// withoutItsKey starts the plane after its key was lost: it must not make another one.
func withoutItsKey(t *testing.T, args []string) {
	key := filepath.Join(args[0], "encryption", kube.EncryptionConfigFile)
	kept, err := os.ReadFile(key)
	must(t, err)
	must(t, os.Remove(key))
	ctx := poll.Context(t)
	out, err := exec.CommandContext(ctx, os.Args[0], append([]string{"plane"}, args...)...).Output()
	if err == nil || !strings.Contains(string(out), key+" does not hold: restore that file from a backup") {
		t.Errorf("the plane ended with %v and said\n%s", err, out)
	}
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Errorf("a new key was made: %v", err)
	}
	must(t, os.WriteFile(key, kept, 0o644))
	out, err = exec.CommandContext(ctx, os.Args[0], append([]string{"plane"}, args...)...).Output()
	if err == nil || !strings.Contains(string(out), "chmod 600 "+key) {
		t.Errorf("with a key that all can read the plane ended with %v and said\n%s", err, out)
	}
	must(t, os.Chmod(key, 0o600))
}
