// Command upgradeplan is a runtime extension that plans the upgrade of a Cluster over
// several minor versions of Kubernetes, one patch release for each.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/util/version"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// offered are the releases that there are images of, by their minor versions.
var offered = map[uint]string{33: "v1.33.9", 34: "v1.34.6", 35: "v1.35.4", 36: "v1.36.3"}

// plan returns a step for each minor version between the versions of now and the one
// that is wanted. Workers follow as Cluster API sees fit: it knows how far they may be
// behind.
func plan(_ context.Context, r *hooksv1.GenerateUpgradePlanRequest) (*hooksv1.GenerateUpgradePlanResponse, error) {
	from, err := version.ParseSemantic(r.FromControlPlaneKubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("fromControlPlaneKubernetesVersion: %w", err)
	}
	to, err := version.ParseSemantic(r.ToKubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("toKubernetesVersion: %w", err)
	}
	if from.Major() != to.Major() || to.LessThan(from) {
		return nil, fmt.Errorf("there is no upgrade from v%s to v%s", from, to)
	}
	response := &hooksv1.GenerateUpgradePlanResponse{}
	for minor := from.Minor() + 1; minor < to.Minor(); minor++ {
		release, ok := offered[minor]
		if !ok {
			return nil, fmt.Errorf("there is no release of v%d.%d on the way from v%s to v%s", to.Major(), minor, from, to)
		}
		response.ControlPlaneUpgrades = append(response.ControlPlaneUpgrades, hooksv1.UpgradeStep{Version: release})
	}
	if from.LessThan(to) {
		response.ControlPlaneUpgrades = append(response.ControlPlaneUpgrades, hooksv1.UpgradeStep{Version: r.ToKubernetesVersion})
	}
	return response, nil
}

func register(server *extension.Server) error {
	return extension.Handle(server, capi.GenerateUpgradePlan, "plan", plan)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := extension.New(extension.Options{CertFile: "tls.crt", KeyFile: "tls.key"})
	if err == nil {
		err = register(server)
	}
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		log.Print(err)
	}
}
