package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// at is a client of a test's server that loses no time between its tries.
func at(t *testing.T, server *httptest.Server, change ...func(*Options)) *Repository {
	t.Helper()
	o := Options{Address: Scheme + strings.TrimPrefix(strings.TrimPrefix(server.URL, "https://"), "http://") + "/host-bundles"}
	for _, c := range change {
		c(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.wait = func(int) time.Duration { return time.Millisecond }
	return r
}

func reason(err error) hostbundle.Reason {
	var own *hostbundle.Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return ""
}

// staged is a place to fetch to, and a blob that a server has.
func staged(t *testing.T) (hostbundle.Staging, ocispec.Descriptor, string) {
	t.Helper()
	s := hostbundle.Staging{Dir: t.TempDir()}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("content ", 1000)
	return s, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: digest.FromString(content), Size: int64(len(content))}, content
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "registry.example.com/x", "https://registry.example.com/x", "oci://registry.example.com", "oci://registry.example.com/x:v1.36.3", "oci://registry.example.com/x@" + digest.FromString("x").String(), "oci://registry.example.com/UPPER"} {
		if _, err := New(Options{Address: address}); err == nil || !strings.Contains(err.Error(), "want oci://") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for name, o := range map[string]Options{
		"no CA":         {CAFile: "/nowhere"},
		"not a CA":      {CAFile: os.Args[0]},
		"no file":       {ConfigFile: "/nowhere"},
		"no such thing": {ConfigFile: os.Args[0]},
	} {
		o.Address = "oci://registry.example.com/x"
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Nothing goes over a network in the clear, also where a registry leads there.
func TestPlainHTTP(t *testing.T) {
	s, blob, _ := staged(t)
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer elsewhere.Close()
	for name, handler := range map[string]http.HandlerFunc{
		"content": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/blob", http.StatusFound)
		},
		"a server of tokens": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://192.0.2.1/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		server := httptest.NewServer(handler)
		defer server.Close()
		err := at(t, server).Blob(t.Context(), s, blob, nil)
		if err == nil || !strings.Contains(err.Error(), "plain HTTP is for this machine's own loopback") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if asked {
		t.Error("another server was asked")
	}
	r, err := New(Options{Address: "oci://192.0.2.1:5000/x"})
	if err != nil || r.remote.PlainHTTP {
		t.Errorf("plain HTTP to another machine, %v", err)
	}
}

// Credentials are read as docker has them, and tell where they are missing.
func TestCredentials(t *testing.T) {
	s, blob, content := staged(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "host" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	defer server.Close()
	dir := t.TempDir()
	ca, config := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "config.json")
	auth := base64.StdEncoding.EncodeToString([]byte("host:secret"))
	err := errors.Join(os.WriteFile(ca, certificate(server), 0o600),
		os.WriteFile(config, []byte(`{"auths":{"`+strings.TrimPrefix(server.URL, "https://")+`":{"auth":"`+auth+`"}}}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	withCA := func(o *Options) { o.CAFile = ca }
	if err := at(t, server, func(o *Options) { o.TLS = mustTrust(t, "") }).Blob(t.Context(), s, blob, nil); reason(err) != hostbundle.ReasonDenied || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("an unknown CA: %v", err)
	}
	if err := at(t, server, withCA).Blob(t.Context(), s, blob, nil); reason(err) != hostbundle.ReasonDenied || !strings.Contains(err.Error(), "--registry-config") {
		t.Errorf("no credentials: %v", err)
	}
	if err := at(t, server, withCA, func(o *Options) { o.ConfigFile = config }).Blob(t.Context(), s, blob, nil); err != nil {
		t.Error(err)
	}
}

// A server that is busy is waited for; one that fails again and again is given up.
func TestPatience(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, asked int, content string)
		want   hostbundle.Reason
		asked  int
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request, asked int, content string) {
			if asked <= 20 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = w.Write([]byte(content))
		}, "", 21},
		"fails": {func(w http.ResponseWriter, _ *http.Request, _ int, _ string) {
			w.WriteHeader(http.StatusInternalServerError)
		}, hostbundle.ReasonUnreachable, patientTries},
		"knows no ranges and is cut once": {func(w http.ResponseWriter, _ *http.Request, asked int, content string) {
			if asked == 1 {
				w.Header().Set("Content-Length", "8000")
				_, _ = w.Write([]byte(content[:3000]))
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(content))
		}, "", 2},
		"sends another range": {func(w http.ResponseWriter, r *http.Request, asked int, content string) {
			if asked == 1 {
				w.Header().Set("Content-Length", "8000")
				_, _ = w.Write([]byte(content[:3000]))
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Range", "bytes 0-99/8000")
			w.WriteHeader(http.StatusPartialContent)
		}, "", 2},
		"sends something else": {func(w http.ResponseWriter, _ *http.Request, _ int, content string) {
			_, _ = w.Write([]byte(strings.ToUpper(content)))
		}, hostbundle.ReasonCorrupt, 1},
		"sends too much": {func(w http.ResponseWriter, _ *http.Request, _ int, content string) {
			_, _ = w.Write([]byte(content + "more"))
		}, "", 1},
		"is cut each time without a byte": {func(http.ResponseWriter, *http.Request, int, string) { panic(http.ErrAbortHandler) }, hostbundle.ReasonUnreachable, patientTries},
		"has it not":                      {func(w http.ResponseWriter, _ *http.Request, _ int, _ string) { w.WriteHeader(http.StatusNotFound) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, blob, content := staged(t)
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				tt.answer(w, r, asked, content)
			}))
			server.Config.ErrorLog = quiet
			defer server.Close()
			err := at(t, server).Blob(t.Context(), s, blob, nil)
			if fails := name == "has it not" || name == "sends another range" || tt.want != ""; reason(err) != tt.want || (err != nil) != fails {
				t.Errorf("err = %v", err)
			}
			if asked != tt.asked {
				t.Errorf("asked %d times, want %d", asked, tt.asked)
			}
			if has := s.Has(blob); has != (err == nil) {
				t.Errorf("has it: %t, err %v", has, err)
			}
		})
	}
}

// Where there is another source, nobody waits for one that is down.
func TestHasty(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"fails":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"is cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s, blob, _ := staged(t)
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				answer(w, r)
			}))
			server.Config.ErrorLog = quiet
			defer server.Close()
			if err := at(t, server, func(o *Options) { o.Hasty = true }).Blob(t.Context(), s, blob, nil); reason(err) != hostbundle.ReasonUnreachable || asked != hastyTries {
				t.Errorf("asked %d times: %v", asked, err)
			}
		})
	}
}

// Who interrupts a wait gets an end at once.
func TestInterrupted(t *testing.T) {
	s, blob, _ := staged(t)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	if err := at(t, server).Blob(ctx, s, blob, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
