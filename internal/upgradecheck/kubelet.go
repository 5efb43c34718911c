package upgradecheck

import (
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/yaml"
)

// kubeletHeader begins a configuration of which the cluster says nothing.
const kubeletHeader = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// machineFields are about the machine that a kubelet runs on, and not about the upgrade: that of the operator is
// another one.
const machineFields = `{"failCgroupV1":false,"failSwapOn":false}`

// kubeletConfiguration is what kubeadm would write for the kubelet: the cluster's, with the patches among the files of
// the object, or the file that is a KubeletConfiguration itself. It also says which files are not known here.
func (o *tried) kubeletConfiguration() (_ []byte, missing []string, _ error) {
	base := o.Kubelet
	if len(base) == 0 {
		base = []byte(kubeletHeader)
	}
	document, err := yaml.YAMLToJSON(base)
	if err != nil {
		return nil, nil, fmt.Errorf("the cluster's KubeletConfiguration: %w", err)
	}
	files := slices.SortedStableFunc(slices.Values(o.Spec.Files), func(a, b bootstrapv1.File) int { return strings.Compare(a.Path, b.Path) })
	for _, file := range files {
		content, err := decoded(file)
		switch {
		case err != nil && isPatch(file.Path):
			return nil, nil, fmt.Errorf("%s: %w", file.Path, err)
		case file.ContentFrom.Secret.Name != "" && isPatch(file.Path):
			missing = append(missing, fmt.Sprintf("%s is in Secret %s", file.Path, file.ContentFrom.Secret.Name))
			continue
		case err != nil || file.ContentFrom.Secret.Name != "":
			continue
		}
		var kind struct{ Kind string }
		whole := yaml.Unmarshal([]byte(content), &kind) == nil && kind.Kind == "KubeletConfiguration"
		if !isPatch(file.Path) && !whole {
			continue
		}
		patch, err := yaml.YAMLToJSON([]byte(content))
		if err == nil {
			document, err = patched(document, patch, strings.Contains(filepath.Base(file.Path), "+json"))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	document, err = jsonpatch.MergePatch(document, []byte(machineFields))
	return document, missing, err
}

// patched applies a JSON patch, or a merge patch: the lists of a KubeletConfiguration are replaced by a strategic one,
// too.
func patched(document, patch []byte, operations bool) ([]byte, error) {
	if !operations {
		return jsonpatch.MergePatch(document, patch)
	}
	all, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.EnsurePathExistsOnAdd = true
	return all.ApplyWithOptions(document, options)
}

// maxFile is how much a compressed file may hold: Kubernetes keeps no larger object.
const maxFile = 1 << 20

func decoded(file bootstrapv1.File) (string, error) {
	content := io.Reader(strings.NewReader(file.Content))
	if file.Encoding == bootstrapv1.Base64 || file.Encoding == bootstrapv1.GzipBase64 {
		content = base64.NewDecoder(base64.StdEncoding, content)
	}
	if file.Encoding == bootstrapv1.Gzip || file.Encoding == bootstrapv1.GzipBase64 {
		unpacked, err := gzip.NewReader(content)
		if err != nil {
			return "", err
		}
		content = unpacked
	}
	data, err := io.ReadAll(io.LimitReader(content, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return string(data), err
}
