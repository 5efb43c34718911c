package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadmfeatures "k8s.io/kubernetes/cmd/kubeadm/app/features"
	kubeletoptions "k8s.io/kubernetes/cmd/kubelet/app/options"
)

// description is what a version takes from its users.
type description struct {
	// Flags of each program by name; the value is why one is deprecated.
	Flags map[string]map[string]string `json:"flags"`
	// FeatureGates of all programs but kubeadm, each with its stage.
	FeatureGates map[string]string `json:"featureGates"`
	// KubeadmFeatureGates are those of the cluster's configuration.
	KubeadmFeatureGates map[string]string `json:"kubeadmFeatureGates"`
	// KubeadmAPIs are the versions in which kubeadm reads its configuration.
	KubeadmAPIs []string `json:"kubeadmAPIs"`
	// KubeletFields are those of KubeletConfiguration v1beta1, by their path.
	KubeletFields []string `json:"kubeletFields"`
}

// describe prints the description. The programs themselves hide the feature gates that are no longer to be changed,
// which they take nevertheless.
func describe() int {
	d := description{
		Flags:        map[string]map[string]string{},
		FeatureGates: map[string]string{}, KubeadmFeatureGates: map[string]string{},
	}
	for _, command := range []*cobra.Command{
		apiserver.NewAPIServerCommand(), controllermanager.NewControllerManagerCommand(),
		scheduler.NewSchedulerCommand(), proxy.NewProxyCommand(),
	} {
		d.Flags[command.Name()] = flags(command.Flags())
	}
	kubelet := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	config, err := kubeletoptions.NewKubeletConfiguration()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	kubeletoptions.NewKubeletFlags().AddFlags(kubelet)
	kubeletoptions.AddKubeletConfigFlags(kubelet, config)
	kubeletoptions.AddGlobalFlags(kubelet)
	d.Flags["kubelet"] = flags(kubelet)
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		d.FeatureGates[string(name)] = stage
	}
	for name, feature := range kubeadmfeatures.InitFeatureGates {
		d.KubeadmFeatureGates[name] = string(feature.PreRelease)
	}
	for _, version := range kubeadmscheme.Scheme.PrioritizedVersionsForGroup("kubeadm.k8s.io") {
		d.KubeadmAPIs = append(d.KubeadmAPIs, version.Version)
	}
	d.KubeletFields = fields(reflect.TypeFor[kubeletconfig.KubeletConfiguration](), "")
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 1
	}
	return 0
}

func flags(set *pflag.FlagSet) map[string]string {
	all := map[string]string{}
	set.VisitAll(func(f *pflag.Flag) { all[f.Name] = f.Deprecated })
	return all
}

// fields are the JSON paths of a type, without what other types of Kubernetes have below them.
func fields(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[kubeletconfig.KubeletConfiguration]().PkgPath() {
		return []string{path}
	}
	var all []string
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if options == "inline" {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		all = append(all, fields(of.Field(i).Type, name)...)
	}
	return all
}
