// Command topology is a runtime extension that adds a variable to a ClusterClass: the
// time servers of all machines of a Cluster that kubeadm bootstraps.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// variable is what a Cluster sets in spec.topology.variables.
const variable = "ntpServers"

func discoverVariables(context.Context, *hooksv1.DiscoverVariablesRequest) (*hooksv1.DiscoverVariablesResponse, error) {
	required := false
	return &hooksv1.DiscoverVariablesResponse{Variables: []clusterv1.ClusterClassVariable{{
		Name: variable, Required: &required,
		Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{
			Type: "array", Description: "Time servers of all machines.", Items: &clusterv1.JSONSchemaProps{Type: "string"},
		}},
	}}}, nil
}

// generatePatches answers the same request in the same way each time: Cluster API calls
// it for each reconcile, and a patch that changes rolls machines.
func generatePatches(_ context.Context, r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
	servers, err := servers(r.Variables)
	if err != nil || len(servers) == 0 {
		return nil, err
	}
	ntp := map[string]any{"ntp": map[string]any{"enabled": true, "servers": servers}}
	response := &hooksv1.GeneratePatchesResponse{}
	for _, item := range r.Items {
		var template runtime.TypeMeta
		if err := json.Unmarshal(item.Object.Raw, &template); err != nil {
			return nil, fmt.Errorf("template %s: %w", item.UID, err)
		}
		spec := ntp
		switch template.Kind {
		case "KubeadmConfigTemplate":
		case "KubeadmControlPlaneTemplate":
			spec = map[string]any{"kubeadmConfigSpec": ntp}
		default:
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}})
		if err != nil {
			return nil, err
		}
		response.Items = append(response.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: patch})
	}
	return response, nil
}

// servers returns the value of the variable, nil if the Cluster does not set it.
func servers(variables []hooksv1.Variable) ([]string, error) {
	for _, v := range variables {
		if v.Name == variable {
			return parse(v.Value)
		}
	}
	return nil, nil
}

func parse(value apiextensionsv1.JSON) ([]string, error) {
	var servers []string
	if err := json.Unmarshal(value.Raw, &servers); err != nil {
		return nil, fmt.Errorf("variable %s: want a list of host names: %w", variable, err)
	}
	return servers, nil
}

func register(server *extension.Server) error {
	if err := extension.Handle(server, capi.DiscoverVariables, "ntp-variables", discoverVariables); err != nil {
		return err
	}
	return extension.Handle(server, capi.GeneratePatches, "ntp-patches", generatePatches)
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
