// Command topology is a runtime extension that adds a variable to a ClusterClass: the
// time servers of all machines of a Cluster that kubeadm bootstraps.
package main

import (
	"context"
	"errors"
	"log"
	"os/signal"
	"syscall"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/topology"
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

// setServers changes a configuration in the same way each time: Cluster API calls the
// hook for each reconcile, and a patch that changes rolls machines.
func setServers(spec *bootstrapv1.KubeadmConfigSpec, t topology.Template) error {
	var servers []string
	if ok, err := t.Variable(variable, &servers); err != nil || !ok {
		return err
	}
	enabled := true
	spec.NTP = bootstrapv1.NTP{Enabled: &enabled, Servers: servers}
	return nil
}

func controlPlane(_ context.Context, object *controlplanev1.KubeadmControlPlaneTemplate, t topology.Template) error {
	return setServers(&object.Spec.Template.Spec.KubeadmConfigSpec, t)
}

func worker(_ context.Context, object *bootstrapv1.KubeadmConfigTemplate, t topology.Template) error {
	return setServers(&object.Spec.Template.Spec, t)
}

func register(server *extension.Server) error {
	patches := topology.GeneratePatches(
		topology.Visit(clusterv1.PatchSelector{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlaneTemplate"}, controlPlane),
		topology.Visit(clusterv1.PatchSelector{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"}, worker),
	)
	return errors.Join(
		extension.Handle(server, capi.DiscoverVariables, "ntp-variables", discoverVariables),
		extension.Handle(server, capi.GeneratePatches, "ntp-patches", patches),
	)
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
