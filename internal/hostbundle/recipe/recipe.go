package recipe

import (
	"embed"
	"path"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

//go:embed files
var files embed.FS

// hostFiles are the files of every host, by where they go.
var hostFiles = []struct {
	path, name string
	mode       uint32
}{
	{"/etc/slipway/containerd.toml", "containerd.toml", 0o644},
	{"/etc/modules-load.d/slipway.conf", "modules.conf", 0o644},
	{"/etc/sysctl.d/90-slipway.conf", "sysctl.conf", 0o644},
	{"/opt/slipway/bin/import-images", "import-images.sh", 0o755},
	{unitDirectory + "/slipway-containerd.service", "slipway-containerd.service", 0o644},
	{unitDirectory + "/slipway-images.service", "slipway-images.service", 0o644},
	{unitDirectory + "/kubelet.service", "kubelet.service", 0o644},
}

const (
	unitDirectory = "/etc/systemd/system"
	wants         = unitDirectory + "/multi-user.target.wants"
)

// enabled are the units that each boot starts, in the order of their first start. The
// kubelet waits for its configuration.
var enabled = []string{"slipway-containerd.service", "slipway-images.service", "kubelet.service"}

// Build writes a bundle for each Kubernetes version of a node bundle. The archives of
// images are those of `nodebundle-build archives`.
func Build(w *hostbundle.Writer, nodeBundleDir, imageDir string) ([]string, error) {
	b, err := readNodeBundle(nodeBundleDir)
	if err != nil {
		return nil, err
	}
	k := &kitchen{writer: w, dir: nodeBundleDir, images: imageDir, made: map[string]hostbundle.Component{}}
	var versions []string
	for _, r := range b.Kubernetes {
		contents, err := k.contents(b, r)
		if err != nil {
			return nil, err
		}
		if err := w.Bundle(r.Version, contents); err != nil {
			return nil, err
		}
		versions = append(versions, r.Version)
	}
	return versions, nil
}

// kitchen builds each component once.
type kitchen struct {
	writer      *hostbundle.Writer
	dir, images string
	made        map[string]hostbundle.Component
}

func (k *kitchen) contents(b nodeBundle, r release) (hostbundle.Contents, error) {
	c := hostbundle.Contents{
		KubernetesVersion: r.Version, Architecture: b.Architecture,
		Directories:       []string{hostbundle.StateDirectory + "/containerd"},
		SharedDirectories: []string{"/etc/cni/net.d", "/opt/cni/bin"},
		Modules:           strings.Fields(read("modules.conf")),
		Units:             enabled,
	}
	for _, p := range []struct {
		name, version, dir string
		programs           []string
	}{
		{"containerd", b.Versions.Containerd, "bin", []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
		{"runc", b.Versions.Runc, "bin", []string{"runc"}},
		{"cni", b.Versions.CNIPlugins, "cni", []string{"bridge", "flannel", "host-local", "loopback", "portmap", "ptp"}},
		{"kubernetes", r.Version, path.Join("kubernetes", r.Version), []string{"hyperkube"}},
	} {
		var sources []hostbundle.Source
		for _, program := range p.programs {
			sources = append(sources, hostbundle.Source{Path: program, From: filepath.Join(k.dir, p.dir, program), Mode: 0o755})
		}
		if err := k.add(&c, p.name, p.version, sources); err != nil {
			return c, err
		}
	}
	for _, a := range b.archives(r) {
		name := "image-" + a.name
		if err := k.add(&c, name, a.version, []hostbundle.Source{{Path: "image.tar", From: filepath.Join(k.images, a.file()), Mode: 0o644}}); err != nil {
			return c, err
		}
		c.Links = append(c.Links, hostbundle.Link{Path: "/opt/slipway/images/" + a.file(), Component: name, Target: "image.tar"})
	}
	c.Links = append(c.Links, links(r.Version)...)
	for _, f := range hostFiles {
		content := strings.ReplaceAll(read(f.name), "@pause@", r.Images["pause"])
		c.Files = append(c.Files, hostbundle.HostFile{Path: f.path, Mode: f.mode, Content: content})
	}
	return c, nil
}

// links are those into programs, and those by which systemd starts units at boot.
func links(version string) []hostbundle.Link {
	all := []hostbundle.Link{{Path: "/opt/slipway/cni", Component: "cni", Target: "."}}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		all = append(all, hostbundle.Link{Path: "/usr/local/bin/" + program, Component: "containerd", Target: program})
	}
	all = append(all, hostbundle.Link{Path: "/usr/local/bin/runc", Component: "runc", Target: "runc"})
	// the program looks at the name it is called by
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		all = append(all, hostbundle.Link{Path: "/opt/slipway/kubernetes/" + version + "/" + program, Component: "kubernetes", Target: "hyperkube"})
	}
	for _, unit := range enabled {
		all = append(all, hostbundle.Link{Path: wants + "/" + unit, Target: "../" + unit})
	}
	return all
}

func (k *kitchen) add(c *hostbundle.Contents, name, version string, sources []hostbundle.Source) error {
	key := name + " " + version
	component, made := k.made[key]
	if !made {
		var err error
		if component, err = k.writer.Component(name, version, sources); err != nil {
			return err
		}
		k.made[key] = component
	}
	c.Components = append(c.Components, component)
	return nil
}

func read(name string) string {
	data, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // embedded
	}
	return string(data)
}
