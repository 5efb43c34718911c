// Command quota is a runtime extension in 30 lines: it holds back the creation of
// Clusters while their namespace asks for it.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

func beforeCreate(_ context.Context, r *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
	if r.Cluster.Annotations["example.com/hold"] != "" {
		return nil, extension.RetryAfter(30*time.Second, "the quota of namespace "+r.Cluster.Namespace+" is used up")
	}
	return nil, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := extension.New(extension.Options{CertFile: "tls.crt", KeyFile: "tls.key"})
	if err == nil {
		err = extension.Handle(server, capi.BeforeClusterCreate, "quota", beforeCreate)
	}
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		log.Print(err)
	}
}
