package upstream

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/mod/semver"
)

// The components that are made of files.
const (
	componentKubernetes = "kubernetes"
	componentContainerd = "containerd"
	componentRunc       = "runc"
	componentCNI        = "cni"
)

// programs of Kubernetes that a host runs.
var kubernetesPrograms = []string{"kubeadm", "kubectl", "kubelet"}

// Request is what somebody wants a lock of.
type Request struct {
	// Kubernetes, Containerd, Runc and CNIPlugins are versions with a leading v.
	Kubernetes, Containerd, Runc, CNIPlugins string
	// Architectures as Go names them.
	Architectures []string
	// Images are further ones, such as those of the cluster's network, with a tag.
	Images []string
}

// taggedImage is REGISTRY/REPOSITORY:TAG.
var taggedImage = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+:[\w][\w.-]*$`)

// Validate names each field that is wrong.
func (r Request) Validate() error {
	var errs []error
	for _, v := range []struct{ what, version string }{
		{"the version of Kubernetes", r.Kubernetes}, {"--containerd", r.Containerd}, {"--runc", r.Runc}, {"--cni-plugins", r.CNIPlugins},
	} {
		if !semver.IsValid(v.version) || semver.Canonical(v.version) != v.version {
			errs = append(errs, fmt.Errorf("%s: want a version such as v1.36.5, not %q", v.what, v.version))
		}
	}
	if len(errs) == 0 && semver.Major(r.Containerd) != "v2" {
		errs = append(errs, fmt.Errorf("--containerd %s: want 2.x, whose configuration a host bundle has", r.Containerd))
	}
	if len(r.Architectures) == 0 {
		errs = append(errs, errors.New("--arch: want one or more architectures, such as amd64,arm64"))
	}
	for i, a := range r.Architectures {
		if _, known := machines[a]; !known || slices.Contains(r.Architectures[:i], a) {
			errs = append(errs, fmt.Errorf("--arch: %q is there twice, or not one of %s", a, strings.Join(architectures(), ", ")))
		}
	}
	for _, image := range r.Images {
		if !taggedImage.MatchString(image) {
			errs = append(errs, fmt.Errorf("--image: want REGISTRY/REPOSITORY:TAG, not %q", image))
		}
	}
	return errors.Join(errs...)
}

// wanted is one file of a release, and what says that it is right.
type wanted struct {
	component, version, architecture string
	url                              string
	// checksum is the address of a list or of one digest of the algorithm.
	checksum  string
	algorithm digest.Algorithm
	// signature and certificate are addresses; empty where upstream signs nothing that Sigstore verifies.
	signature, certificate string
}

// plan lists the files of a request in the order of the lock. The request is valid.
func (s Sources) plan(r Request) []wanted {
	var all []wanted
	for _, a := range r.Architectures {
		for _, program := range kubernetesPrograms {
			all = append(all, s.program(r.Kubernetes, a, program))
		}
		number := strings.TrimPrefix(r.Containerd, "v")
		archive := fmt.Sprintf("%s/%s/containerd-%s-linux-%s.tar.gz", s.Containerd, r.Containerd, number, a)
		plugins := fmt.Sprintf("%s/%s/cni-plugins-linux-%s-%s.tgz", s.CNIPlugins, r.CNIPlugins, a, r.CNIPlugins)
		all = append(all,
			wanted{component: componentContainerd, version: r.Containerd, architecture: a, url: archive, checksum: archive + ".sha256sum", algorithm: digest.SHA256},
			wanted{component: componentRunc, version: r.Runc, architecture: a, url: s.Runc + "/" + r.Runc + "/runc." + a,
				checksum: s.Runc + "/" + r.Runc + "/runc.sha256sum", algorithm: digest.SHA256},
			wanted{component: componentCNI, version: r.CNIPlugins, architecture: a, url: plugins, checksum: plugins + ".sha512", algorithm: digest.SHA512})
	}
	return all
}

func (s Sources) program(version, architecture, name string) wanted {
	url := fmt.Sprintf("%s/%s/bin/linux/%s/%s", s.Kubernetes, version, architecture, name)
	return wanted{component: componentKubernetes, version: version, architecture: architecture, url: url,
		checksum: url + ".sha512", algorithm: digest.SHA512, signature: url + ".sig", certificate: url + ".cert"}
}

// checksumOf finds the digest of a file in a list as sha256sum writes it, or in a text that is
// nothing but a digest. A PGP signature around the list does not matter: it is not verified.
func checksumOf(list []byte, file string, algorithm digest.Algorithm) (digest.Digest, error) {
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		named := len(fields) == 2 && strings.TrimPrefix(strings.TrimPrefix(fields[1], "*"), "./") == file
		if !named && (len(fields) != 1 || len(strings.Fields(string(list))) != 1) {
			continue
		}
		d := digest.NewDigestFromEncoded(algorithm, fields[0])
		if err := d.Validate(); err != nil {
			return "", fmt.Errorf("%q is not a digest of %s", fields[0], algorithm)
		}
		return d, nil
	}
	return "", fmt.Errorf("want a line with the digest of %s", file)
}
