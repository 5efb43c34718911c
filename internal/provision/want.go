package provision

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Agent is a slipway-agent for one architecture.
type Agent struct {
	// Architecture is Go's name of it.
	Architecture string
	path, digest string
	size         int64
}

// elfArchitectures are those that the agent is built for.
var elfArchitectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_RISCV: "riscv64"}

// OpenAgent looks at a file that shall be a slipway-agent.
func OpenAgent(path string) (*Agent, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s is no program for Linux: name the slipway-agent-linux-ARCHITECTURE of the release", path)
	}
	a := &Agent{Architecture: elfArchitectures[program.Machine], path: path, digest: sum(data), size: int64(len(data))}
	if a.Architecture == "" {
		return nil, fmt.Errorf("%s is for machines of %s, for which there are no agents", path, program.Machine)
	}
	return a, nil
}

// Bundles are host bundles of one Kubernetes version, for any architecture.
type Bundles struct {
	directory *hostbundle.Directory
	keys      hostbundle.PublicKeys
	publicKey []byte
	version   string

	mu sync.Mutex
	// found by architecture: machines of one share it.
	found map[string]verdict
}

type verdict struct {
	bundle *bundle
	err    error
}

// OpenBundles reads a directory with host bundles; of an empty version the newest. Each
// bundle is used only once a signature by one of the public keys holds for it.
func OpenBundles(dir, publicKey, version string) (*Bundles, error) {
	data, err := os.ReadFile(publicKey)
	if err != nil {
		return nil, fmt.Errorf("--public-key: %w", err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		return nil, fmt.Errorf("--public-key %s: %w", publicKey, err)
	}
	d, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		return nil, err
	}
	versions := d.Versions()
	switch {
	case len(versions) == 0:
		return nil, fmt.Errorf("--host-bundle: %s has no host bundle", dir)
	case version == "":
		version = versions[len(versions)-1]
	case !slices.Contains(versions, version):
		return nil, fmt.Errorf("--kubernetes-version: %s has no bundle of %q; it has: %s", dir, version, strings.Join(versions, ", "))
	}
	return &Bundles{directory: d, keys: keys, publicKey: data, version: version, found: map[string]verdict{}}, nil
}

// bundle is what is brought of host bundles to one machine.
type bundle struct {
	version   string
	digest    digest.Digest
	publicKey []byte
	layout    hostbundle.Layout
	// size of all that is brought, and of what is unpacked of it, in bytes.
	size, unpacked int64
}

// of returns the bundle for an architecture, and compares all of it with its digests: what
// is damaged shall not be brought to a hundred machines first.
func (b *Bundles) of(architecture string) (*bundle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.found[architecture]
	if !ok {
		v.bundle, v.err = b.verify(architecture)
		b.found[architecture] = v
	}
	return v.bundle, v.err
}

func (b *Bundles) verify(architecture string) (*bundle, error) {
	verified, err := b.directory.Bundle(b.version, architecture, b.keys)
	if err != nil {
		return nil, err
	}
	layout, err := verified.Layout()
	if err != nil {
		return nil, err
	}
	found := &bundle{version: b.version, digest: verified.Digest, publicKey: b.publicKey, layout: layout}
	for _, blob := range layout.Blobs {
		found.size += blob.Size
		if err := layout.Verify(blob); err != nil {
			return nil, err
		}
	}
	for _, c := range verified.Components {
		found.unpacked += c.Size()
	}
	return found, nil
}

// installed says whether all of it is on the machine.
func (b *bundle) installed(f Facts) bool {
	there := f.Software[b.version]
	return there.State == "Installed" && there.Digest == b.digest.String()
}

// wanted is what one machine shall become.
type wanted struct {
	server, namespace string
	// agent for the machine; nil when there is none for its architecture.
	agent         *Agent
	architectures []string
	// bundle is nil where the operator prepares the software.
	bundle *bundle
	// managed has the agent install the versions that are asked of the host later.
	managed bool
	unit    []byte
	// labels and failureDomain of the Host, and whether it is approved.
	labels        map[string]string
	failureDomain string
	approve       bool
}

// describes says whether the Host shall have more than what its agent tells.
func (w *wanted) describes() bool { return len(w.labels) > 0 || w.failureDomain != "" || w.approve }

func (w *wanted) unitDigest() string { return sum(w.unit) }

// sum is what sha256sum prints.
func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// choose takes what is for the machine.
func (o *Options) choose(address string, f Facts) (*wanted, error) {
	place := o.PlaceOf(address)
	w := &wanted{server: o.Server, namespace: o.Namespace, unit: o.Unit, labels: place.Labels, failureDomain: place.FailureDomain, approve: o.Approve}
	for _, a := range o.Agents {
		w.architectures = append(w.architectures, a.Architecture)
		if a.Architecture == f.architecture() {
			w.agent = a
		}
	}
	if o.Bundles == nil || w.agent == nil {
		return w, nil
	}
	var err error
	w.bundle, err = o.Bundles.of(f.architecture())
	w.managed = !o.Provided
	return w, err
}
