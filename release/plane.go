package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// planeProgram is `slipway up` and the command line.
	planeProgram = "slipway"
	// planeHome is where packages put the plane; the archives unpack into a directory of its last
	// name.
	planeHome = "/usr/lib/" + planeProgram
	// nodeBundle is the name of what local hosts boot with, and of the directory beside the
	// plane's programs where they look for it.
	nodeBundle, nodeBundleDir = "slipway-node-bundle", "bundle"
)

// planeParts are the programs of a plane, which starts the others from its own directory.
var planeParts = []string{planeProgram, "slipway-sandbox", agent, "slipway-lifecycle"}

// planePackage has the plane's programs, and its command where a shell finds it.
func (r *release) planePackage(arch string) pkg {
	return pkg{
		name: planeProgram, summary: "Turn Linux hosts into Kubernetes clusters", recommends: machineTools, scripts: "plane/package",
		description: "Slipway: a management plane with etcd, kube-apiserver and Cluster API, and its command line.\n`slipway install` makes it a service of this machine.",
		files:       append(inHome(r.planeFiles(arch)), entry{"/usr/bin/" + planeProgram, path.Join("..", "lib", planeProgram, planeProgram), fs.ModeSymlink | 0o777}),
	}
}

// inHome are files of a package in the plane's directory, which rpm removes only when it is named.
func inHome(files []entry) []entry {
	return append([]entry{{planeHome, "", fs.ModeDir | 0o755}}, below(planeHome, files)...)
}

// writeArchives writes what makes a machine a plane for those who have no package manager, or
// no root: the programs for each architecture.
func (r *release) writeArchives(context.Context) error {
	for _, arch := range r.architectures {
		if err := r.writePlaneArchive(planeProgram, arch, r.planeFiles(arch)); err != nil {
			return err
		}
	}
	return nil
}

// writeNodeBundle writes the node bundle, for the architecture that it was built for. It is apart
// from the programs, because a plane of real hosts needs none of it, and it is several times as
// large.
func (r *release) writeNodeBundle(context.Context) error {
	if r.nodeBundle == "" {
		return nil
	}
	arch, files, err := r.nodeBundleFiles()
	if err != nil {
		return fmt.Errorf("-node-bundle %s: want the directory that `make bundle` writes as root: %w", r.nodeBundle, err)
	}
	if err := r.writePlaneArchive(nodeBundle, arch, files); err != nil {
		return err
	}
	return r.pack(pkg{
		name: nodeBundle, summary: "Local hosts for planes of Slipway",
		description: "What the local hosts of `slipway up` boot with: a Kubernetes that was built with Slipway, for trials and development.",
		recommends:  map[string][]string{"deb": {planeProgram}, "rpm": {planeProgram}},
		files:       inHome(files),
	}, arch)
}

// writePlaneArchive writes an archive that unpacks into the plane's directory.
func (r *release) writePlaneArchive(name, arch string, files []entry) error {
	_, err := r.writeTarball(filepath.Join(r.assets(), name+"-"+r.version+"-linux-"+arch+".tar.gz"), below(planeProgram, files))
	return err
}

// planeFiles are the programs for an architecture, and the agents for the others: hosts are of
// any.
func (r *release) planeFiles(arch string) []entry {
	var files []entry
	for _, name := range planeParts {
		files = append(files, entry{name: name, from: r.binary(name, platform{"linux", arch}), mode: 0o755})
	}
	for _, other := range r.architectures {
		if other != arch {
			program := r.binary(agent, platform{"linux", other})
			files = append(files, entry{name: filepath.Base(program), from: program, mode: 0o755})
		}
	}
	return append(files, entry{name: "LICENSE", from: filepath.Join(r.source, "LICENSE"), mode: 0o644})
}

// nodeBundleFiles are those of the node bundle, with its images unpacked, and the architecture
// that they are for.
func (r *release) nodeBundleFiles() (arch string, _ []entry, _ error) {
	manifest, err := os.ReadFile(filepath.Join(r.nodeBundle, "bundle.json"))
	if err != nil {
		return "", nil, err
	}
	var of struct{ Digest, Architecture string }
	if err := json.Unmarshal(manifest, &of); err != nil {
		return "", nil, fmt.Errorf("bundle.json: %w", err)
	}
	unpacked, err := os.ReadFile(filepath.Join(r.nodeBundle, "store.digest"))
	if err != nil {
		return "", nil, err
	}
	if strings.TrimSpace(string(unpacked)) != of.Digest {
		return "", nil, errors.New("its images are those of an earlier build")
	}
	files, err := treeOf(r.nodeBundle, nodeBundleDir)
	return of.Architecture, files, err
}
