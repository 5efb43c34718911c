package upgrade

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// Where kubeadm puts what a control-plane host has, and what is what there.
const (
	kubernetes              = "/etc/kubernetes"
	manifests               = kubernetes + "/manifests"
	pki                     = kubernetes + "/pki"
	controllerManagerConfig = kubernetes + "/controller-manager.conf"
	apiServerKey            = pki + "/apiserver.key"

	apiServer = "kube-apiserver"
	etcd      = "etcd"
)

// stateless are the static pods that may be of either version at any time.
var stateless = []string{apiServer, "kube-controller-manager", "kube-scheduler"}

func manifestPath(component string) string { return filepath.Join(manifests, component+".yaml") }

// manifest reads the manifest of a static pod.
func (u Upgrader) manifest(component string) (*corev1.Pod, error) {
	data, err := u.Root.ReadFile(manifestPath(component))
	if err == nil {
		var pod *corev1.Pod
		if pod, err = parseManifest(data); err == nil {
			return pod, nil
		}
	}
	return nil, operation.Failf(operation.ReasonControlPlaneHost, operation.RetryNever, err,
		"the manifest of %s on this host cannot be read; put it in order, or replace the Machine", component)
}

// parseManifest refuses what the kubelet would start nothing of, such as a file that a power
// cut left empty.
func parseManifest(data []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return nil, err
	}
	if pod.Kind != "Pod" || len(pod.Spec.Containers) != 1 || imageOf(pod) == "" {
		return nil, fmt.Errorf("it is no Pod of one container with an image")
	}
	return pod, nil
}

func imageOf(pod *corev1.Pod) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Image
}

// tagOf is the tag of an image, without a digest; empty when it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return tag
}

// withArguments is the command of a container, in which all arguments that have one of the
// prefixes are those of another command.
func withArguments(command, from []string, prefixes ...string) []string {
	concerned := func(arg string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(arg, prefix) })
	}
	result := slices.DeleteFunc(slices.Clone(command), concerned)
	for _, arg := range from {
		if concerned(arg) {
			result = append(result, arg)
		}
	}
	return result
}
