package client_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// exampleClient returns a client of an extension that has two handlers, and what stops
// the extension. A manager has the entry from an ExtensionConfig and its discovery.
func exampleClient(ctx context.Context) (*client.Client, func(), error) {
	server, err := extension.New(extension.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	for name, answer := range map[string]error{
		"backup": extension.RetryAfter(time.Minute, "waiting for the backup"),
		"quota":  extension.RetryAfter(30*time.Second, "waiting for quota"),
	} {
		if err := extension.Handle(server, capi.BeforeClusterDelete, name, func(context.Context, *hooksv1.BeforeClusterDeleteRequest) (*hooksv1.BeforeClusterDeleteResponse, error) {
			return nil, answer
		}); err != nil {
			return nil, nil, err
		}
	}
	served := httptest.NewTLSServer(server.Handler())
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		return nil, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw})
	c, _, err := hooktest.Discover(ctx, catalog, hooktest.Config("gates", served.URL, ca))
	return c, served.Close, err
}

// CallAll calls each handler that selects the object, and says when to call again.
func ExampleCallAll() {
	c, stop, err := exampleClient(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	demo := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo"}}
	result, err := client.CallAll(context.Background(), c, capi.BeforeClusterDelete, demo, &hooksv1.BeforeClusterDeleteRequest{Cluster: *demo})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Blocked(), result.RetryAfter, result.Response.Message)
	// Output: true 30s backup.gates: waiting for the backup, quota.gates: waiting for quota
}

// Call calls one handler by its qualified name. The type of the error says what failed.
func ExampleCall() {
	c, stop, err := exampleClient(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	demo := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo"}}
	response, err := client.Call(context.Background(), c, capi.BeforeClusterDelete, "quota.gates", demo, &hooksv1.BeforeClusterDeleteRequest{Cluster: *demo})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(response.RetryAfterSeconds, response.Message)
	_, err = client.Call(context.Background(), c, capi.BeforeClusterDelete, "unheard.gates", demo, &hooksv1.BeforeClusterDeleteRequest{Cluster: *demo})
	var unknown *registry.NotRegisteredError
	fmt.Println(errors.As(err, &unknown))
	// Output:
	// 30 waiting for quota
	// true
}
