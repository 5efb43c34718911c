package bootstrap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
)

// The kinds of documents that say something about a node.
const (
	apiGroup    = "kubeadm.k8s.io/"
	initKind    = "InitConfiguration"
	joinKind    = "JoinConfiguration"
	clusterKind = "ClusterConfiguration"
)

// KubeadmSettings are what the data says of the node; empty where it leaves that open.
type KubeadmSettings struct {
	// Name is nodeRegistration.name.
	Name string
	// HostnameOverride, NodeIP and NodeLabels are the flags in nodeRegistration.kubeletExtraArgs.
	HostnameOverride, NodeIP, NodeLabels string
}

// ReadKubeadm returns what the files of bootstrap data say of the node.
func ReadKubeadm(files []cloudconfig.File) KubeadmSettings {
	found := KubeadmSettings{}
	for _, f := range configuration(files) {
		_, _ = editDocuments(f.Content, func(document map[string]any) bool {
			registration, _ := document["nodeRegistration"].(map[string]any)
			if name, _ := registration["name"].(string); name != "" {
				found.Name = name
			}
			if value := extraArg(registration, "hostname-override"); value != "" {
				found.HostnameOverride = value
			}
			if value := extraArg(registration, "node-ip"); value != "" {
				found.NodeIP = value
			}
			if value := extraArg(registration, "node-labels"); value != "" {
				found.NodeLabels = value
			}
			return false
		})
	}
	return found
}

// configPaths are where Cluster API's bootstrap provider writes the configuration of the kubeadm that it runs
// (bootstrap/kubeadm/pkg/cloudinit), after the files of users.
var configPaths = []string{"/run/kubeadm/kubeadm.yaml", "/run/kubeadm/kubeadm-join-config.yaml"}

// configuration returns the files that configure the kubeadm that makes the node: the last one at the bootstrap
// provider's paths. Others with documents of kubeadm are for what else users do with it, such as uploading another
// configuration; they count where no file is at these paths.
func configuration(files []cloudconfig.File) []*cloudconfig.File {
	var all []*cloudconfig.File
	for i := range slices.Backward(files) {
		f := &files[i]
		if slices.Contains(configPaths, path.Clean(f.Path)) && len(documentsOf(f.Content)) > 0 {
			return []*cloudconfig.File{f}
		}
		all = append(all, f)
	}
	slices.Reverse(all)
	return all
}

// extraArg is a flag of the kubelet: a map up to kubeadm.k8s.io/v1beta3, a list since, whose last one counts.
func extraArg(registration map[string]any, name string) string {
	switch args := registration["kubeletExtraArgs"].(type) {
	case map[string]any:
		value, _ := args[name].(string)
		return value
	case []any:
		for _, arg := range slices.Backward(args) {
			if arg, _ := arg.(map[string]any); arg["name"] == name {
				value, _ := arg["value"].(string)
				return value
			}
		}
	}
	return ""
}

// CompleteKubeadm returns the files with the name of the node and the address of its API server where the
// data leaves them open: kubeadm would take them from what the host says at that moment. Either may be
// empty to leave it so.
func CompleteKubeadm(files []cloudconfig.File, name string, advertise netip.Addr) ([]cloudconfig.File, error) {
	completed := slices.Clone(files)
	for _, f := range configuration(completed) {
		content, err := editDocuments(withInitConfiguration(f.Content), func(document map[string]any) bool {
			changed := name != "" && fillIn(document, name, "nodeRegistration", "name")
			endpoint := []string{"localAPIEndpoint", "advertiseAddress"}
			if document["kind"] == joinKind {
				if controlPlane, _ := document["controlPlane"].(map[string]any); controlPlane == nil {
					return changed
				}
				endpoint = append([]string{"controlPlane"}, endpoint...)
			}
			return advertise.IsValid() && fillIn(document, advertise.String(), endpoint...) || changed
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		f.Content = content
	}
	return completed, nil
}

// withInitConfiguration adds an empty InitConfiguration to a file that makes a control plane without one. On IPv6
// kubeadm takes the newest address of the interface otherwise, which is the virtual one.
func withInitConfiguration(content []byte) []byte {
	version := ""
	for _, document := range documentsOf(content) {
		switch document.kind {
		case initKind, joinKind:
			return content
		case clusterKind:
			version = document.version
		}
	}
	if version == "" {
		return content
	}
	return fmt.Appendf(bytes.TrimRight(bytes.Clone(content), "\n"), "\n---\napiVersion: %s\nkind: %s\n", version, initKind)
}

// fillIn sets a field that is empty, and reports whether it was.
func fillIn(object map[string]any, value string, path ...string) bool {
	for _, name := range path[:len(path)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			if object[name] != nil {
				return false // Of another type: kubeadm says so.
			}
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	last := path[len(path)-1]
	if text, isText := object[last].(string); object[last] != nil && (!isText || text != "") {
		return false
	}
	object[last] = value
	return true
}

// document is one of a file of YAML.
type document struct {
	text          []byte
	version, kind string
	content       map[string]any
}

// documentsOf are those of a file that has configuration of kubeadm; nil of any other, and of what is no
// YAML.
func documentsOf(content []byte) (all []document) {
	if !bytes.Contains(content, []byte(apiGroup)) {
		return nil
	}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return nil
		}
		d := document{text: text, content: map[string]any{}}
		if yaml.Unmarshal(text, &d.content) == nil {
			version, _ := d.content["apiVersion"].(string)
			if strings.HasPrefix(version, apiGroup) {
				d.version = version
				d.kind, _ = d.content["kind"].(string)
			}
		}
		all = append(all, d)
	}
}

// editDocuments calls change with each document of kubeadm for a node, and writes those that it changed. All
// others, and what is no YAML, stay as they are.
func editDocuments(content []byte, change func(map[string]any) bool) ([]byte, error) {
	var texts []string
	changed := false
	for _, d := range documentsOf(content) {
		if (d.kind == initKind || d.kind == joinKind) && change(d.content) {
			text, err := yaml.Marshal(d.content)
			if err != nil {
				return nil, err
			}
			d.text, changed = text, true
		}
		texts = append(texts, strings.TrimSuffix(string(d.text), "\n")+"\n")
	}
	if !changed {
		return content, nil
	}
	return []byte(strings.Join(texts, "---\n")), nil
}
