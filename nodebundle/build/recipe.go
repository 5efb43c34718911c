package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// Names of the images that kubeadm does not name.
const (
	// The suffix tells our assembly of flannel's packages from upstream's image.
	flannelRepository = "ghcr.io/flannel-io/flannel"
	flannelTagSuffix  = "-slipway1"
	echoImage         = "slipway.dev/echo:v1"
)

// containerPath lets manifests name a program without its directory, as
// kubeadm's do.
const containerPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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

// recipes returns one recipe for each of kubeadm's images and for our own two,
// after checking that the tags kubeadm expects are what v says was compiled.
func recipes(kubeadmRefs []string, v versions) ([]recipe, error) {
	var all []recipe
	for _, ref := range kubeadmRefs {
		r, err := kubeadmRecipe(ref, v)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return append(all,
		recipe{
			ref:        flannelRepository + ":" + v.Flannel + flannelTagSuffix,
			entrypoint: []string{"/opt/bin/flanneld"},
			layers:     []string{"base", "nft", "flannel"},
		},
		recipe{ref: echoImage, entrypoint: []string{"/usr/local/bin/echo"}, user: "65532:65532", layers: []string{"base", "echo"}},
	), nil
}

// kubeadmRecipe finds the recipe of one image by the last part of its name.
func kubeadmRecipe(ref string, v versions) (recipe, error) {
	r := recipe{ref: ref}
	name := r.shortName()
	_, tag := splitTag(ref)
	want := v.Kubernetes
	switch name {
	case "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		r.entrypoint, r.layers = []string{name}, []string{"base", "kubernetes"}
	case "kube-proxy":
		r.entrypoint, r.layers = []string{name}, []string{"base", "kubernetes", "nft"}
	case "etcd":
		// kubeadm's tag is the version without its v and with an image revision.
		want = strings.TrimPrefix(v.Etcd, "v") + tag[max(0, strings.LastIndex(tag, "-")):]
		r.entrypoint, r.layers = []string{name}, []string{"base", "etcd"}
	case "coredns":
		want = v.CoreDNS
		r.entrypoint, r.layers = []string{"/coredns"}, []string{"base", "coredns"}
	case "pause":
		// The program is ours, so kubeadm's number is as good as any.
		want = tag
		r.entrypoint, r.user, r.layers = []string{"/pause"}, "65535:65535", []string{"pause"}
	default:
		return recipe{}, fmt.Errorf("kubeadm names image %s, which the bundle cannot make: add a recipe for it", ref)
	}
	if tag != want {
		return recipe{}, fmt.Errorf("kubeadm expects %s, but the bundle compiled %s: require the expected version in nodebundle/%s/go.mod", ref, want, name)
	}
	return r, nil
}

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
		"kubernetes": {
			program("usr/local/bin/hyperkube", a.hyperkube()),
			symlink("usr/local/bin/kube-apiserver", "hyperkube"),
			symlink("usr/local/bin/kube-controller-manager", "hyperkube"),
			symlink("usr/local/bin/kube-proxy", "hyperkube"),
			symlink("usr/local/bin/kube-scheduler", "hyperkube"),
		},
		"nft":     nft,
		"etcd":    {program("usr/local/bin/etcd", a.part("etcd"))},
		"coredns": {program("coredns", a.part("coredns"))},
		"flannel": {program("opt/bin/flanneld", a.part("flanneld"))},
		"echo":    {program("usr/local/bin/echo", a.part("echo"))},
		"pause":   {program("pause", a.part("pause"))},
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
			return machineProgram(candidate)
		}
	}
	return nil, errors.New("nft is not installed: install the package nftables (make deps)")
}
