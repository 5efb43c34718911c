package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// partNames are the binaries that only images hold.
var partNames = []string{"coredns", "echo", "etcd", "flanneld", "pause"}

// assembly is one run of the assemble subcommand: where the inputs are.
type assembly struct {
	bundle     string // the bundle's directory
	parts      string // binaries that only images hold
	kubernetes string // version with a leading v
}

func (a assembly) hyperkube() string {
	return filepath.Join(a.bundle, "kubernetes", a.kubernetes, "hyperkube")
}

// part is the path of a binary that only images hold.
func (a assembly) part(name string) string { return filepath.Join(a.parts, name) }

// assemble brings the bundle up to date with its binaries.
func assemble(ctx context.Context, a assembly, out io.Writer) error {
	digest, err := a.inputDigest()
	if err != nil {
		return err
	}
	if isCurrent(a.bundle, digest) {
		return nil
	}
	v, err := a.readVersions()
	if err != nil {
		return err
	}
	refs, err := a.kubeadmImages(ctx)
	if err != nil {
		return err
	}
	all, err := recipes(refs, v)
	if err != nil {
		return err
	}
	if err := a.linkComponents(); err != nil {
		return err
	}
	m := manifest{
		Digest: digest, Architecture: runtime.GOARCH, Versions: v,
		Archive: filepath.Join("images", a.kubernetes+".tar"), Images: shortNames(all),
	}
	if err := a.pack(all, filepath.Join(a.bundle, m.Archive)); err != nil {
		return err
	}
	if err := writeManifest(a.bundle, m); err != nil {
		return err
	}
	fmt.Fprintf(out, "node bundle: %d images for Kubernetes %s in %s\n", len(all), v.Kubernetes, filepath.Join(a.bundle, m.Archive))
	return nil
}

// inputDigest covers everything the bundle is made of: the Go programs by their
// build IDs, the machine's programs by content, and this program itself, which
// holds the recipes.
func (a assembly) inputDigest() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	programs := []string{self, a.hyperkube()}
	for _, dir := range []string{filepath.Join(a.bundle, "bin"), filepath.Join(a.bundle, "cni")} {
		files, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			programs = append(programs, filepath.Join(dir, f.Name()))
		}
	}
	for _, name := range partNames {
		programs = append(programs, a.part(name))
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOARCH, a.kubernetes)
	for _, p := range programs {
		id, err := goBuildID(p)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, filepath.Base(p), id)
	}
	machine, err := nftLayer()
	if err != nil {
		return "", err
	}
	l, err := newLayer("nft", machine...)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(hash, l.digest)
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// isCurrent says whether the bundle was completely assembled from these inputs.
func isCurrent(bundle, digest string) bool {
	m, err := readManifest(bundle)
	if err != nil || m.Digest != digest {
		return false
	}
	_, err = os.Stat(filepath.Join(bundle, m.Archive))
	return err == nil
}

func (a assembly) pack(all []recipe, target string) error {
	layers, err := a.pantry()
	if err != nil {
		return err
	}
	index, err := buildIndex(all, layers)
	if err != nil {
		return err
	}
	return replaceFile(target, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(writeArchive(buffered, index), buffered.Flush())
	})
}

// linkComponents gives hyperkube the names that hosts call it by.
func (a assembly) linkComponents() error {
	for _, name := range []string{"kubeadm", "kubectl", "kubelet"} {
		link := filepath.Join(filepath.Dir(a.hyperkube()), name)
		err := os.Symlink("hyperkube", link)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// kubeadmImages asks the bundle's own kubeadm which images its clusters use.
func (a assembly) kubeadmImages(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, a.hyperkube(), "kubeadm", "config", "images", "list", "--kubernetes-version", a.kubernetes)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("kubeadm config images list: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeadm config images list: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func (a assembly) readVersions() (versions, error) {
	v := versions{}
	for _, part := range []struct {
		into         *string
		path, module string
	}{
		{&v.Kubernetes, a.hyperkube(), "k8s.io/kubernetes"},
		{&v.Containerd, filepath.Join(a.bundle, "bin", "containerd"), "github.com/containerd/containerd/v2"},
		{&v.Runc, filepath.Join(a.bundle, "bin", "runc"), "github.com/opencontainers/runc"},
		{&v.CNIPlugins, filepath.Join(a.bundle, "cni", "ptp"), "github.com/containernetworking/plugins"},
		{&v.Flannel, a.part("flanneld"), "github.com/flannel-io/flannel"},
		{&v.Etcd, a.part("etcd"), "go.etcd.io/etcd/server/v3"},
		{&v.CoreDNS, a.part("coredns"), "github.com/coredns/coredns"},
	} {
		var err error
		if *part.into, err = moduleVersion(part.path, part.module); err != nil {
			return versions{}, err
		}
	}
	if v.Kubernetes != a.kubernetes {
		return versions{}, fmt.Errorf("%s is Kubernetes %s, not %s", a.hyperkube(), v.Kubernetes, a.kubernetes)
	}
	return v, nil
}
