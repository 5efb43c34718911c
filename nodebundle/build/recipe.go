package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Names of the images that kubeadm does not name.
const (
	// The suffix tells our assembly of flannel's packages from upstream's image.
	flannelRepository = "slipway.dev/flannel"
	flannelTagSuffix  = "-slipway1"
	echoImage         = "slipway.dev/echo:v1"
)

// containerPath lets manifests name a program without its directory, as
// kubeadm's do.
const containerPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pairedPrograms are those that kubeadm names by a version of their own: where
// each is in its image, the module that tells the version of a binary, and the
// directory whose files require it.
var pairedPrograms = map[string]struct{ target, module, required string }{
	"coredns": {"coredns", "github.com/coredns/coredns", "nodebundle/network"},
	"etcd":    {"usr/local/bin/etcd", "go.etcd.io/etcd/server/v3", "nodebundle"},
}

// recipe says how one image is made.
type recipe struct {
	ref        string   // complete name with tag
	entrypoint []string // what it runs when the pod names no command
	user       string   // numeric user[:group]; empty means root
	layers     []string // names of layers in the pantry, lowest first
}

// shortName is the last part of the image's name without its tag.
func (r recipe) shortName() string {
	repository, _ := splitTag(r.ref)
	return path.Base(repository)
}

// splitTag cuts ref into repository and tag at its last colon; a colon before
// the last slash belongs to a registry's port.
func splitTag(ref string) (repository, tag string) {
	at := strings.LastIndex(ref, ":")
	if at <= strings.LastIndex(ref, "/") {
		return ref, ""
	}
	return ref[:at], ref[at+1:]
}

// ownRecipes are the images that no kubeadm asks for.
func ownRecipes(v versions) []recipe {
	return []recipe{
		{
			ref:        flannelRepository + ":" + v.Flannel + flannelTagSuffix,
			entrypoint: []string{"/opt/bin/flanneld"},
			layers:     []string{"base", "nft", "flannel"},
		},
		{ref: echoImage, entrypoint: []string{"/usr/local/bin/echo"}, user: "65532:65532", layers: []string{"base", "echo"}},
	}
}

// kubeadmRecipes finds the recipe of each image that the kubeadm of one
// Kubernetes version asks for.
func (a assembly) kubeadmRecipes(kubernetes string, refs []string) ([]recipe, error) {
	var all []recipe
	for _, ref := range refs {
		r, err := kubeadmRecipe(kubernetes, ref)
		if err != nil {
			return nil, err
		}
		top := r.layers[len(r.layers)-1]
		if p, isPaired := pairedPrograms[r.shortName()]; isPaired && !slices.Contains(a.paired, top) {
			return nil, fmt.Errorf("the kubeadm of Kubernetes %s expects %s, but the bundle compiled %s only: require that version in a file of %s",
				kubernetes, ref, strings.Join(a.paired, ", "), p.required)
		}
		all = append(all, r)
	}
	return all, nil
}

// kubeadmRecipe goes by the last part of the image's name, and for programs with
// a version of their own by its tag.
func kubeadmRecipe(kubernetes, ref string) (recipe, error) {
	r := recipe{ref: ref}
	name := r.shortName()
	_, tag := splitTag(ref)
	switch name {
	case "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		r.entrypoint, r.layers = []string{name}, []string{"base", kubernetesLayer(kubernetes)}
	case "kube-proxy":
		r.entrypoint, r.layers = []string{name}, []string{"base", kubernetesLayer(kubernetes), "nft"}
	case "etcd":
		// kubeadm's tag is the version without its v and with an image revision.
		version, _, _ := strings.Cut(tag, "-")
		r.entrypoint, r.layers = []string{name}, []string{"base", "etcd-v" + version}
		return r, nil
	case "coredns":
		r.entrypoint, r.layers = []string{"/" + pairedPrograms[name].target}, []string{"base", "coredns-" + tag}
		return r, nil
	case "pause":
		// The program is ours, so kubeadm's number is as good as any.
		r.entrypoint, r.user, r.layers = []string{"/pause"}, "65535:65535", []string{"pause"}
		return r, nil
	default:
		return recipe{}, fmt.Errorf("kubeadm names image %s, which the bundle cannot make: add a recipe for it", ref)
	}
	if tag != kubernetes {
		return recipe{}, fmt.Errorf("the kubeadm of Kubernetes %s names %s", kubernetes, ref)
	}
	return r, nil
}

func kubernetesLayer(version string) string { return "kubernetes-" + version }

// pantry makes every layer that recipes use, by name.
func (a assembly) pantry() (map[string]*layer, error) {
	nft, err := nftLayer()
	if err != nil {
		return nil, err
	}
	ingredients := map[string][]entry{
		"base": {
			directory("tmp", 0o777|os.ModeSticky),
			directory("run", 0o755),
			directory("root", 0o700),
			file("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"),
			file("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
			file("etc/nsswitch.conf", "hosts: files dns\n"),
		},
		"nft":     nft,
		"flannel": {program("opt/bin/flanneld", a.part("flanneld"))},
		"echo":    {program("usr/local/bin/echo", a.part("echo"))},
		"pause":   {program("pause", a.part("pause"))},
	}
	for _, version := range a.kubernetes {
		ingredients[kubernetesLayer(version)] = []entry{
			program("usr/local/bin/hyperkube", a.hyperkube(version)),
			symlink("usr/local/bin/kube-apiserver", "hyperkube"),
			symlink("usr/local/bin/kube-controller-manager", "hyperkube"),
			symlink("usr/local/bin/kube-proxy", "hyperkube"),
			symlink("usr/local/bin/kube-scheduler", "hyperkube"),
		}
	}
	for _, name := range a.paired {
		kind, _, _ := strings.Cut(name, "-")
		ingredients[name] = []entry{program(pairedPrograms[kind].target, a.part(name))}
	}
	layers := map[string]*layer{}
	for name, entries := range ingredients {
		if layers[name], err = newLayer(name, entries...); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// nftLayer holds the machine's nft, by which kube-proxy and flanneld program
// the kernel.
func nftLayer() ([]entry, error) {
	// /usr/sbin is not on every user's PATH.
	for _, candidate := range []string{"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"} {
		if _, err := os.Stat(candidate); err == nil {
			entries, err := machineProgram(candidate)
			return append(entries, file("etc/protocols", protocols)), err
		}
	}
	return nil, errors.New("nft is not installed: install the package nftables (make deps)")
}

// protocols gives nft the names kube-proxy uses. Without them nft prints numbers, in
// which a kube-proxy that starts again does not recognise the elements of its maps: it
// deletes them as left over, and no Service is reached any more.
const protocols = "ip\t0\tIP\nicmp\t1\tICMP\ntcp\t6\tTCP\nudp\t17\tUDP\nipv6-icmp\t58\tIPv6-ICMP\nsctp\t132\tSCTP\n"
