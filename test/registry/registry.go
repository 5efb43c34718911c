package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"
	certutil "k8s.io/client-go/util/cert"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
)

// user may read and write.
const user = "hosts"

// Registry is a registry with its content in a folder. It serves while Serve has it.
type Registry struct {
	// Address is HOST:PORT, in the network namespace Namespace, that of the test when empty.
	Address, Namespace string
	// CAFile vouches for the registry, ConfigFile has its credentials as `docker login`
	// writes them.
	CAFile, ConfigFile string

	program, dir, password string
}

// Program is what `make registry` puts into the folder of programs.
func Program(bin string) string { return filepath.Join(bin, "registry", "docker-registry") }

// New makes a registry that is empty and does not serve yet.
func New(t testing.TB, bin, address string) *Registry {
	t.Helper()
	dir := t.TempDir()
	r := &Registry{
		Address: address, CAFile: filepath.Join(dir, "ca.crt"), ConfigFile: filepath.Join(dir, "config.json"),
		program: Program(bin), dir: dir, password: rand.Text(),
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(r.password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	credentials := base64.StdEncoding.EncodeToString([]byte(user + ":" + r.password))
	for name, content := range map[string]string{
		"ca.crt": string(certificate), "tls.key": string(key), "htpasswd": user + ":" + string(hash) + "\n",
		"config.json": fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address, credentials),
		"config.yaml": fmt.Sprintf(`
version: "0.1"
log: {level: error}
storage: {filesystem: {rootdirectory: %[1]s/content}}
http: {addr: %[2]q, tls: {certificate: %[1]s/ca.crt, key: %[1]s/tls.key, minimumtls: tls1.2}}
auth: {htpasswd: {realm: test, path: %[1]s/htpasswd}}
`, dir, address),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Serve serves until stop is called or the test ends.
func (r *Registry) Serve(t testing.TB) (stop func()) {
	t.Helper()
	args := []string{r.program, "serve", filepath.Join(r.dir, "config.yaml")}
	if r.Namespace != "" {
		args = append([]string{"nsenter", "--net=/run/netns/" + r.Namespace, "--"}, args...)
	}
	process := exec.Command(args[0], args[1:]...)
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	process.Stdout, process.Stderr = log, log
	err = process.Start()
	_ = log.Close()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = process.Process.Kill()
			_ = process.Wait() // it was killed
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			log := r.Log(t)
			t.Logf("the registry:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	poll.Until(t, "the registry answers", func() error {
		conn, err := r.dial(t.Context(), "tcp", r.Address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return stop
}

func (r *Registry) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r.Namespace != "" {
		return live.DialFrom(r.Namespace)(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// Log is what the registry said, each request among it.
func (r *Registry) Log(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// Push copies a tag of an OCI image layout into a repository of the registry, with what
// refers to it, as `oras cp --recursive --from-oci-layout` does.
func (r *Registry) Push(ctx context.Context, layout, repository, tag string) error {
	from, err := oci.NewFromFS(ctx, os.DirFS(layout))
	if err != nil {
		return err
	}
	to, err := remote.NewRepository(r.Address + "/" + repository)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(r.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New("the CA of the registry has no certificate")
	}
	to.Client = &auth.Client{
		Client:     &http.Client{Transport: &http.Transport{DialContext: r.dial, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		Credential: auth.StaticCredential(r.Address, auth.Credential{Username: user, Password: r.password}),
	}
	if _, err := oras.ExtendedCopy(ctx, from, tag, to, tag, oras.DefaultExtendedCopyOptions); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	return nil
}
