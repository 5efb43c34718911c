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
	"slices"
	"strings"
)

// partNames are the binaries that only images hold, beside the paired ones.
var partNames = []string{"echo", "flanneld", "pause"}

// archiveName is the OCI archive's path in the bundle.
const archiveName = "images.tar"

// assembly is one run of the assemble subcommand: where the inputs are.
type assembly struct {
	bundle     string   // the bundle's directory
	parts      string   // binaries that only images hold
	kubernetes []string // versions with a leading v, from old to new
	paired     []string // parts that some kubeadm names by version, such as etcd-v3.6.8
}

func (a assembly) hyperkube(version string) string {
	return filepath.Join(a.bundle, "kubernetes", version, "hyperkube")
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
	own := ownRecipes(v)
	m := manifest{Digest: digest, Architecture: runtime.GOARCH, Versions: v, Archive: archiveName, Images: shortNames(own)}
	all := own
	for _, version := range a.kubernetes {
		recipes, err := a.release(ctx, version)
		if err != nil {
			return err
		}
		m.Kubernetes = append(m.Kubernetes, release{Version: version, Images: shortNames(recipes)})
		all = append(all, recipes...)
	}
	all = eachOnce(all)
	if err := a.pack(all, filepath.Join(a.bundle, m.Archive)); err != nil {
		return err
	}
	if err := writeManifest(a.bundle, m); err != nil {
		return err
	}
	fmt.Fprintf(out, "node bundle: %d images for Kubernetes %s in %s\n", len(all), strings.Join(a.kubernetes, " and "), filepath.Join(a.bundle, m.Archive))
	return a.removeStale()
}

// release readies the programs of one Kubernetes version and returns the recipes
// of the images its kubeadm asks for.
func (a assembly) release(ctx context.Context, version string) ([]recipe, error) {
	refs, err := a.kubeadmImages(ctx, version)
	if err != nil {
		return nil, err
	}
	if err := a.linkComponents(version); err != nil {
		return nil, err
	}
	recipes, err := a.kubeadmRecipes(version, refs)
	if err != nil {
		return nil, err
	}
	return recipes, a.addEtcd(version, recipes)
}

// addEtcd puts the etcd of a version beside its other programs, for those who try what its pods would be started with.
func (a assembly) addEtcd(version string, recipes []recipe) error {
	at := slices.IndexFunc(recipes, func(r recipe) bool { return r.shortName() == "etcd" })
	if at < 0 {
		return nil
	}
	layers := recipes[at].layers
	program, err := os.Open(a.part(layers[len(layers)-1]))
	if err != nil {
		return err
	}
	defer program.Close()
	return replaceFile(filepath.Join(filepath.Dir(a.hyperkube(version)), "etcd"), 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, program)
		return err
	})
}

// eachOnce drops the recipes of images that several versions share.
func eachOnce(all []recipe) []recipe {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(r recipe) bool {
		twice := seen[r.ref]
		seen[r.ref] = true
		return twice
	})
}

// removeStale deletes what an earlier bundle held: the archive under its old
// name, and versions that are no longer built.
func (a assembly) removeStale() error {
	dirs, err := filepath.Glob(filepath.Join(a.bundle, "kubernetes", "v*"))
	if err != nil {
		return err
	}
	stale := []string{filepath.Join(a.bundle, "images")}
	for _, dir := range dirs {
		if !slices.Contains(a.kubernetes, filepath.Base(dir)) {
			stale = append(stale, dir)
		}
	}
	for _, path := range stale {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
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
	programs := []string{self}
	for _, version := range a.kubernetes {
		programs = append(programs, a.hyperkube(version))
	}
	for _, dir := range []string{filepath.Join(a.bundle, "bin"), filepath.Join(a.bundle, "cni")} {
		files, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			programs = append(programs, filepath.Join(dir, f.Name()))
		}
	}
	for _, name := range slices.Concat(partNames, a.paired) {
		programs = append(programs, a.part(name))
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOARCH, a.kubernetes, a.paired)
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

// isCurrent says whether the bundle was completely assembled from these inputs:
// the images are in the archive, or in the store that replaced it.
func isCurrent(bundle, digest string) bool {
	m, err := readManifest(bundle)
	if err != nil || m.Digest != digest {
		return false
	}
	_, err = os.Stat(filepath.Join(bundle, m.Archive))
	return err == nil || storeIsCurrent(bundle, digest)
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
	return replaceFile(target, 0o644, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(writeArchive(buffered, index), buffered.Flush())
	})
}

// kubeadmScript is kubeadm on a local host. Its check SystemVerification is about the kernel
// and the control groups of the machine, which a local host shares and cannot change, and no
// configuration of a cluster that also runs elsewhere should know that. Phases take the flag
// where they check, and nobody may name a check who leaves out all of them. What runs is
// called kubeadm, as everywhere.
const kubeadmScript = `#!/bin/sh
kubeadm="$(dirname "$(readlink -f "$0")")/unchanged/kubeadm"
case "$1 $2 $3 $4 " in
init\ phase\ preflight* | join\ phase\ preflight* | upgrade\ *\ phase\ preflight*) ;;
init\ phase* | join\ phase* | upgrade\ *\ phase*) exec "$kubeadm" "$@" ;;
init\ * | join\ * | upgrade\ node\ * | upgrade\ apply\ *) ;;
*) exec "$kubeadm" "$@" ;;
esac
before=
for argument in "$@"; do
  case "$before $argument" in
  "--ignore-preflight-errors all" | *\ --ignore-preflight-errors=all) exec "$kubeadm" "$@" ;;
  "--config "*) config="$argument" ;;
  *\ --config=*) config="${argument#--config=}" ;;
  esac
  before="$argument"
done
if [ -n "$config" ] && grep -Eqs "^ *- *[\"']?all[\"']? *\$|^ *ignorePreflightErrors: *\[ *[\"']?all" "$config"; then
  exec "$kubeadm" "$@"
fi
exec "$kubeadm" "$@" --ignore-preflight-errors=SystemVerification
`

// linkComponents gives hyperkube the names that hosts call it by.
func (a assembly) linkComponents(version string) error {
	dir := filepath.Dir(a.hyperkube(version))
	if err := os.MkdirAll(filepath.Join(dir, "unchanged"), 0o755); err != nil {
		return err
	}
	for link, target := range map[string]string{"kubectl": "hyperkube", "kubelet": "hyperkube", "unchanged/kubeadm": "../hyperkube"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return replaceFile(filepath.Join(dir, "kubeadm"), 0o755, func(w io.Writer) error {
		_, err := io.WriteString(w, kubeadmScript)
		return err
	})
}

// kubeadmImages asks the kubeadm of one version which images its clusters use.
func (a assembly) kubeadmImages(ctx context.Context, version string) ([]string, error) {
	cmd := exec.CommandContext(ctx, a.hyperkube(version), "kubeadm", "config", "images", "list", "--kubernetes-version", version)
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

// readVersions asks the binaries, and refuses one that is not what its name says.
func (a assembly) readVersions() (versions, error) {
	v := versions{}
	for _, part := range []struct {
		into         *string
		path, module string
	}{
		{&v.Containerd, filepath.Join(a.bundle, "bin", "containerd"), "github.com/containerd/containerd/v2"},
		{&v.Runc, filepath.Join(a.bundle, "bin", "runc"), "github.com/opencontainers/runc"},
		{&v.CNIPlugins, filepath.Join(a.bundle, "cni", "ptp"), "github.com/containernetworking/plugins"},
		{&v.Flannel, a.part("flanneld"), "github.com/flannel-io/flannel"},
	} {
		var err error
		if *part.into, err = moduleVersion(part.path, part.module); err != nil {
			return versions{}, err
		}
	}
	for _, version := range a.kubernetes {
		if err := mustBe(a.hyperkube(version), "k8s.io/kubernetes", version); err != nil {
			return versions{}, err
		}
	}
	for _, name := range a.paired {
		kind, version, _ := strings.Cut(name, "-")
		if err := mustBe(a.part(name), pairedPrograms[kind].module, version); err != nil {
			return versions{}, err
		}
	}
	return v, nil
}

// mustBe refuses a program that was built from another version of the module.
func mustBe(path, module, version string) error {
	built, err := moduleVersion(path, module)
	if err == nil && built != version {
		err = fmt.Errorf("%s was built from %s %s, not %s", path, module, built, version)
	}
	return err
}
