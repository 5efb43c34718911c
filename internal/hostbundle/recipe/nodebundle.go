package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// nodeBundle is what bundle.json of a node bundle says, see nodebundle/README.md.
type nodeBundle struct {
	Architecture string `json:"architecture"`
	Versions     struct {
		Containerd string `json:"containerd"`
		Runc       string `json:"runc"`
		CNIPlugins string `json:"cniPlugins"`
	} `json:"versions"`
	Kubernetes []release         `json:"kubernetes"`
	Images     map[string]string `json:"images"`
}

// release is a Kubernetes version, and its images by their short names.
type release struct {
	Version string            `json:"version"`
	Images  map[string]string `json:"images"`
}

func readNodeBundle(dir string) (nodeBundle, error) {
	var b nodeBundle
	data, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		return b, fmt.Errorf("read the node bundle: %w; `make bundle` builds it", err)
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("read the node bundle %s: %w", dir, err)
	}
	return b, nil
}

// testImages are for the tests of local hosts.
var testImages = []string{"echo"}

// archives are the names and versions of the image archives of one version, in order:
// the components of Kubernetes share one.
func (b nodeBundle) archives(r release) []archive {
	all := []archive{{"kubernetes", r.Version}}
	for _, images := range []map[string]string{r.Images, b.Images} {
		for _, name := range slices.Sorted(maps.Keys(images)) {
			if strings.HasPrefix(name, "kube-") || slices.Contains(testImages, name) {
				continue
			}
			all = append(all, archive{name, images[name][strings.LastIndex(images[name], ":")+1:]})
		}
	}
	return all
}

// archive is one or more images in a file.
type archive struct{ name, version string }

func (a archive) file() string { return a.name + "-" + a.version + ".tar" }
