package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/hostbundle"
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

// node says what a host gets of a version. Its programs of Kubernetes are one.
func (b nodeBundle) node(r release, dir, images string) Node {
	n := Node{Version: r.Version, Architecture: b.Architecture, Origin: hostbundle.OriginOwnBuild, Pause: r.Images["pause"], Multicall: "hyperkube"}
	for _, p := range []struct {
		name, version, dir string
		programs           []string
	}{
		{"containerd", b.Versions.Containerd, "bin", []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
		{"runc", b.Versions.Runc, "bin", []string{"runc"}},
		{"cni", b.Versions.CNIPlugins, "cni", []string{"bridge", "flannel", "host-local", "loopback", "portmap", "ptp"}},
		{"kubernetes", r.Version, path.Join("kubernetes", r.Version), []string{n.Multicall}},
	} {
		part := Part{Name: p.name, Version: p.version}
		for _, program := range p.programs {
			part.Sources = append(part.Sources, hostbundle.Source{Path: program, From: filepath.Join(dir, p.dir, program), Mode: 0o755})
		}
		n.Components = append(n.Components, part)
	}
	for _, a := range b.archives(r) {
		n.Images = append(n.Images, Part{Name: a.name, Version: a.version,
			Sources: []hostbundle.Source{{Path: "image.tar", From: filepath.Join(images, a.file()), Mode: 0o644}}})
	}
	return n
}
