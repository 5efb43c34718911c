package pool

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// ErrBootstrapFormat means that the data is no cloud-config, of which alone the token is
// known to be found.
var ErrBootstrapFormat = errors.New("the bootstrap data is not a cloud-config that can be read; set spec.format of the KubeadmConfig to cloud-config")

// joinConfigPath is where the kubeadm bootstrap provider puts the JoinConfiguration
// (bootstrap/kubeadm/pkg/cloudinit). A file there that can't be read is an error: its
// token would be taken for content, and each rotation for a change.
const joinConfigPath = "/run/kubeadm/kubeadm-join-config.yaml"

// fingerprintLength of a fingerprint in hexadecimal digits.
const fingerprintLength = 16

// Fingerprint of bootstrap data: equal for two that differ in nothing but the
// kubeadm token and the layout of the YAML. Templates are compared as they are
// written, since what they render to differs from host to host.
func Fingerprint(data []byte) (string, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	config := map[string]any{}
	if !isCloudConfig(text) || sigsyaml.Unmarshal([]byte(text), &config) != nil {
		return "", ErrBootstrapFormat
	}
	if err := normalizeFiles(config["write_files"]); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(config)
	if err != nil {
		return "", ErrBootstrapFormat
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])[:fingerprintLength], nil
}

// isCloudConfig looks for the header among the comments at the top; a jinja header
// may stand before it.
func isCloudConfig(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
		if strings.TrimSpace(line) == "#cloud-config" {
			return true
		}
	}
	return false
}

func normalizeFiles(files any) error {
	list, _ := files.([]any)
	for _, item := range list {
		file, ok := item.(map[string]any)
		if !ok {
			continue
		}
		content, _ := file["content"].(string)
		documents, found := joinConfiguration(content)
		if found {
			file["content"] = documents
		} else if file["path"] == joinConfigPath {
			return ErrBootstrapFormat
		}
	}
	return nil
}

// joinConfiguration reads the YAML documents of a file and takes the token out of
// each JoinConfiguration. found is false when there is none.
func joinConfiguration(content string) (documents []any, found bool) {
	if !strings.Contains(content, "JoinConfiguration") {
		return nil, false
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, found
		}
		document := map[string]any{}
		if err != nil || sigsyaml.Unmarshal(text, &document) != nil {
			return nil, false
		}
		if document["kind"] == "JoinConfiguration" {
			found = true
			normalizeJoin(document)
		}
		documents = append(documents, document)
	}
}

// normalizeJoin removes the token, and what depends on the kubeadm API version: that
// follows the Kubernetes version, but reaches the Secret later, with the next token.
func normalizeJoin(join map[string]any) {
	delete(join, "apiVersion")
	if discovery, ok := join["discovery"].(map[string]any); ok {
		delete(discovery, "tlsBootstrapToken")
		if token, ok := discovery["bootstrapToken"].(map[string]any); ok {
			delete(token, "token")
		}
	}
	if node, ok := join["nodeRegistration"].(map[string]any); ok {
		node["kubeletExtraArgs"] = argumentsOf(node["kubeletExtraArgs"])
	}
}

// argumentsOf turns the map of v1beta3 into the list of v1beta4, in one order.
func argumentsOf(args any) any {
	list, _ := args.([]any)
	byName, _ := args.(map[string]any)
	for name, value := range byName {
		list = append(list, map[string]any{"name": name, "value": value})
	}
	slices.SortStableFunc(list, func(x, y any) int { return cmp.Compare(argumentName(x), argumentName(y)) })
	return list
}

func argumentName(argument any) string {
	fields, _ := argument.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
