package management

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// A cluster whose API server is cut off takes no longer than it is given: `slipway status`
// waited for more than a minute.
func TestNodesOfASilentCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		begin := time.Now()
		_, err := Nodes(ctx, &rest.Config{Host: "http://silent", Dial: func(context.Context, string, string) (net.Conn, error) {
			connection, silent := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, silent) }()
			return connection, nil
		}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want that the time is over", err)
		}
		// Discovery alone gives up after 32 s.
		if took := time.Since(begin); took != limit {
			t.Errorf("it ends after %s, want %s", took, limit)
		}
	})
}

// TestNodesLeavesNoConnection looks at a cluster as `status --watch` does: each look has its
// own kubeconfig, and a client that is forgotten after it.
func TestNodesLeavesNoConnection(t *testing.T) {
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n"}}]}`))
	}))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateClosed {
			delete(open, conn)
		} else {
			open[conn] = true
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for range 5 {
		// as it is inside a plane's network: client-go shares no connection of those with a dialer
		config := &rest.Config{Host: server.URL, UserAgent: "slipway", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: (&net.Dialer{}).DialContext}
		if nodes, err := Nodes(t.Context(), config); err != nil || len(nodes) != 1 {
			t.Fatalf("got %v, %v", nodes, err)
		}
	}
	poll.Until(t, "no connection is left of 5 looks", func() error {
		if n := count(); n > 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// TestLooksAskOnce looks at a cluster as `status --watch` does: what the API server serves is
// asked once, and anew with other credentials.
func TestLooksAskOnce(t *testing.T) {
	var discoveries atomic.Int32
	answers := map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"infrastructure.slipway.dev","versions":[{"groupVersion":"infrastructure.slipway.dev/v1beta2","version":"v1beta2"}]}]}`,
		"/apis/infrastructure.slipway.dev/v1beta2": `{"kind":"APIResourceList","groupVersion":"infrastructure.slipway.dev/v1beta2","resources":[{"name":"hosts","kind":"Host"}]}`,
		"/api/v1":       `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list"]}]}`,
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" {
			discoveries.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	token := "one"
	cluster := &Cluster{config: func() (*rest.Config, error) { return &rest.Config{Host: server.URL, BearerToken: token}, nil }}
	look := func() int32 {
		before := discoveries.Load()
		c, err := cluster.Client()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.List(t.Context(), &corev1.NodeList{}); err != nil {
			t.Fatal(err)
		}
		return discoveries.Load() - before
	}
	if look() == 0 {
		t.Error("the first look asked nothing: this test does not see it")
	}
	if again := look(); again != 0 {
		t.Errorf("the second look asked %d times what the API server serves", again)
	}
	token = "two"
	if look() == 0 {
		t.Error("with another credential the client of before was used")
	}
}

// TestClientIsKeptForTheSameKubeconfig holds that a client is made anew only when the kubeconfig
// has changed, also one with a proxy, whose config has a function.
func TestClientIsKeptForTheSameKubeconfig(t *testing.T) {
	config := func(server, proxy string) *rest.Config {
		c, err := clientcmd.RESTConfigFromKubeConfig([]byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "t"}}],
			"clusters": [{"name": "c", "cluster": {"server": "` + server + `", "proxy-url": "` + proxy + `"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const server, proxy = "https://192.0.2.1:6443", "http://192.0.2.9:3128"
	for name, c := range map[string]struct {
		server, proxy string
		kept          bool
	}{
		"the same":       {server, proxy, true},
		"another proxy":  {server, "http://192.0.2.8:3128", false},
		"no proxy":       {server, "", false},
		"another server": {"https://192.0.2.2:6443", proxy, false},
	} {
		var kept keptClient
		first, err := kept.of(config(server, proxy))
		if err != nil {
			t.Fatal(err)
		}
		second, err := kept.of(config(c.server, c.proxy))
		if err != nil {
			t.Fatal(err)
		}
		if (first == second) != c.kept {
			t.Errorf("%s: kept %t, want %t", name, first == second, c.kept)
		}
	}
}
