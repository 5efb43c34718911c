package recipe

import (
	"cmp"
	"embed"
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

// Node is what makes a host of one architecture a node of a Kubernetes version.
type Node struct {
	Version, Architecture string
	Origin                hostbundle.Origin
	// Pause is the image in which pods have their namespaces.
	Pause string
	// Components are containerd, runc, cni and kubernetes.
	Components []Part
	// Multicall is the program of Kubernetes that looks at the name it is called by; empty where each
	// is a program of its own.
	Multicall string
	// Images are one archive each, with the source image.tar.
	Images []Part
}

// Part becomes a component.
type Part struct {
	Name, Version string
	Sources       []hostbundle.Source
}

// Packer writes the components of nodes, each once.
type Packer struct {
	writer *hostbundle.Writer
	made   map[string]hostbundle.Component
}

// NewPacker packs into a layout.
func NewPacker(w *hostbundle.Writer) *Packer {
	return &Packer{writer: w, made: map[string]hostbundle.Component{}}
}

// Build writes a bundle for each Kubernetes version of a node bundle. The archives of
// images are those of `nodebundle-build archives`.
func Build(w *hostbundle.Writer, nodeBundleDir, imageDir string) ([]string, error) {
	b, err := readNodeBundle(nodeBundleDir)
	if err != nil {
		return nil, err
	}
	p := NewPacker(w)
	var versions []string
	for _, r := range b.Kubernetes {
		contents, err := p.Contents(b.node(r, nodeBundleDir, imageDir))
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

// Contents writes the components of a node, and says what else the host gets.
func (p *Packer) Contents(n Node) (hostbundle.Contents, error) {
	c := hostbundle.Contents{
		KubernetesVersion: n.Version, Architecture: n.Architecture, Origin: n.Origin,
		Directories:       []string{hostbundle.StateDirectory + "/containerd"},
		SharedDirectories: []string{"/etc/cni/net.d", "/opt/cni/bin"},
		Modules:           strings.Fields(read("modules.conf")),
		Units:             enabled,
	}
	for _, part := range n.Components {
		if err := p.add(&c, part); err != nil {
			return c, err
		}
	}
	for _, image := range n.Images {
		file := image.Name + "-" + image.Version + ".tar"
		image.Name = "image-" + image.Name
		if err := p.add(&c, image); err != nil {
			return c, err
		}
		c.Links = append(c.Links, hostbundle.Link{Path: "/opt/slipway/images/" + file, Component: image.Name, Target: "image.tar"})
	}
	c.Links = append(c.Links, links(n)...)
	for _, f := range hostFiles {
		content := strings.ReplaceAll(read(f.name), "@pause@", n.Pause)
		c.Files = append(c.Files, hostbundle.HostFile{Path: f.path, Mode: f.mode, Content: content})
	}
	return c, nil
}

// links are those into programs, and those by which systemd starts units at boot.
func links(n Node) []hostbundle.Link {
	all := []hostbundle.Link{{Path: "/opt/slipway/cni", Component: "cni", Target: "."}}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		all = append(all, hostbundle.Link{Path: "/usr/local/bin/" + program, Component: "containerd", Target: program})
	}
	all = append(all, hostbundle.Link{Path: "/usr/local/bin/runc", Component: "runc", Target: "runc"})
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		all = append(all, hostbundle.Link{Path: "/opt/slipway/kubernetes/" + n.Version + "/" + program, Component: "kubernetes", Target: cmp.Or(n.Multicall, program)})
	}
	for _, unit := range enabled {
		all = append(all, hostbundle.Link{Path: wants + "/" + unit, Target: "../" + unit})
	}
	return all
}

func (p *Packer) add(c *hostbundle.Contents, part Part) error {
	key := part.Name + " " + part.Version + " " + c.Architecture
	component, made := p.made[key]
	if !made {
		var err error
		if component, err = p.writer.Component(part.Name, part.Version, part.Sources); err != nil {
			return err
		}
		p.made[key] = component
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
