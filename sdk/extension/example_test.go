package extension_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// ask posts a request to the handler quota of a server, in memory, and prints its answer.
func ask(server *extension.Server, cluster string) {
	r := httptest.NewRequest(http.MethodPost, server.Path(capi.BeforeClusterCreate, "quota"), strings.NewReader(`{"cluster":{"metadata":{"namespace":"team-a","name":"`+cluster+`"}}}`))
	w := httptest.NewRecorder()
	server.Handler().ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
}

// A handler holds the creation of a Cluster back, refuses it, or lets it pass.
func ExampleHandle() {
	server, err := extension.New(extension.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = extension.Handle(server, capi.BeforeClusterCreate, "quota", func(_ context.Context, r *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		switch r.Cluster.Name {
		case "first":
			return nil, nil
		case "second":
			return nil, extension.RetryAfter(time.Minute, "one Cluster at a time")
		default:
			return nil, errors.New("namespace " + r.Cluster.Namespace + " has no quota")
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(server, "first")
	ask(server, "second")
	ask(server, "third")
	// Output:
	// 200 {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","retryAfterSeconds":0}
	// 200 {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","message":"one Cluster at a time","retryAfterSeconds":60}
	// 200 {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Failure","message":"namespace team-a has no quota","retryAfterSeconds":0}
}

// What a registration gets wrong is told at once.
func ExampleHandle_wrong() {
	server, err := extension.New(extension.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pass := func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		return nil, nil
	}
	fmt.Println(extension.Handle(server, capi.BeforeClusterCreate, "quota", pass, extension.WithTimeout(time.Minute)))
	fmt.Println(extension.Handle(server, capi.BeforeClusterCreate, "quota", pass, extension.WithFailurePolicy("Retry")))
	// Output:
	// extension: handler "quota": timeout 1m0s is not a number of seconds from 1 to 30
	// extension: handler "quota": failure policy "Retry" is neither Fail nor Ignore
}

// An interceptor sees each call and what becomes of it.
func ExampleWithInterceptors() {
	audit := func(next extension.Func) extension.Func {
		return func(ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
			response, err := next(ctx, call)
			fmt.Println(call.Hook.Hook, call.Object.Kind, call.Object.Name, err)
			return response, err
		}
	}
	server, err := extension.New(extension.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = extension.Handle(server, capi.BeforeClusterCreate, "quota", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		return nil, errors.New("no quota")
	}, extension.WithInterceptors(audit))
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(server, "demo")
	// Output:
	// BeforeClusterCreate Cluster demo no quota
	// 200 {"kind":"BeforeClusterCreateResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Failure","message":"no quota","retryAfterSeconds":0}
}

// A handler finds its logger in the context, with what tells the call from others.
func ExampleOptions_logger() {
	logger := funcr.New(func(_, line string) { fmt.Println(line) }, funcr.Options{})
	server, err := extension.New(extension.Options{Logger: logger})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = extension.Handle(server, capi.BeforeClusterCreate, "quota", func(ctx context.Context, _ *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
		logr.FromContextOrDiscard(ctx).Info("Looked at the quota")
		return nil, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodPost, server.Path(capi.BeforeClusterCreate, "quota"), strings.NewReader(`{"cluster":{"metadata":{"namespace":"team-a","name":"demo"}}}`))
	r.Header.Set("Runtime-Request-Id", "a1")
	server.Handler().ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// "level"=0 "msg"="Looked at the quota" "hook"="BeforeClusterCreate" "hookVersion"="hooks.runtime.cluster.x-k8s.io/v1alpha1" "handler"="quota" "requestID"="a1" "Cluster"={"name"="demo" "namespace"="team-a"}
}

// A handler is served below the path that the ExtensionConfig names.
func ExampleServer_Path() {
	server, err := extension.New(extension.Options{PathPrefix: "hooks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Path(capi.BeforeClusterCreate, "quota"))
	fmt.Println(server.Path(capi.Discovery, ""))
	// Output:
	// /hooks/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/quota
	// /hooks/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery
}
