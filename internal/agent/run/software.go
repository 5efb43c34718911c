package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
)

// ManagementBundles is where the management cluster of this host serves host bundles.
func ManagementBundles(ctx context.Context, stateDir string) (registry.Options, error) {
	server, err := link.FindBundleServer(ctx, stateDir)
	return registry.Options{Address: registry.Scheme + server.HostPort + "/" + registry.ManagementRepository, TLS: server.TLS}, err
}

// managed says whether this agent installs versions: it is told to, and has a key to judge
// bundles by.
func (a *Agent) managed() bool {
	if a.Config.Software.Management != infrav1.HostSoftwareManaged {
		return false
	}
	_, err := a.bundleKeys()
	return err == nil
}

func (a *Agent) bundleKeys() (hostbundle.PublicKeys, error) {
	path := a.Config.Software.PublicKeyFile
	data, err := a.Root.ReadFile(path)
	if err != nil {
		return hostbundle.PublicKeys{}, fmt.Errorf("the public keys of host bundles: %w; software.publicKeyFile of the agent's configuration names the file", err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		return keys, fmt.Errorf("the public keys of host bundles, %s: %w", path, err)
	}
	return keys, nil
}

// manageSoftware has operations install versions, where this agent does.
func (a *Agent) manageSoftware() {
	a.recollect = make(chan struct{}, 1)
	if a.Config.Software.Management != infrav1.HostSoftwareManaged {
		return
	}
	if _, err := a.bundleKeys(); err != nil {
		a.Log.Error("this host counts as one whose operator installs Kubernetes versions, although software.management is Managed", "err", err)
	}
	a.executor.Software = a.installer(func() {
		select {
		case a.recollect <- struct{}{}:
		default:
		}
	})
}

// installer of versions; changed is told when some came or went.
func (a *Agent) installer(changed func()) *software.Installer {
	host := software.Host{Root: a.Root}
	if _, err := os.Stat("/run/systemd/system"); err == nil && a.Root == "" {
		host.Services = &software.Services{Runner: command.System{Identity: a.identity, Log: os.Stderr}}
	}
	return &software.Installer{
		Host: host, Keys: a.bundleKeys, Sources: a.bundleSources, Keep: a.Config.Software.KeepVersions,
		Has:     func(ctx context.Context, version string) bool { return a.executor.Versions.Check(ctx, version) == nil },
		Changed: changed, Now: time.Now, Log: a.Log,
	}
}

// bundleSources are those that can be asked now; an error when there are none.
func (a *Agent) bundleSources(ctx context.Context) ([]software.Source, error) {
	var sources []software.Source
	var errs []error
	for i, name := range a.Config.Software.Sources {
		options, err := registry.Options{Address: name, CAFile: a.Config.Software.CAFile, ConfigFile: a.Config.Software.RegistryConfigFile}, error(nil)
		if name == config.ManagementSource {
			options, err = ManagementBundles(ctx, a.Config.StateDir)
		}
		options.Hasty = i < len(a.Config.Software.Sources)-1
		var source *registry.Repository
		if err == nil {
			source, err = registry.New(options)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, source)
	}
	if len(sources) > 0 {
		return sources, nil
	}
	return nil, errors.Join(errs...)
}

// softwareStatus is what the agent tells of the software of its host.
func (a *Agent) softwareStatus() infrav1.HostSoftware {
	status := infrav1.HostSoftware{Management: infrav1.HostSoftwareProvided, AgentManagement: infrav1.HostSoftwareProvided}
	if a.managed() {
		status.Management = infrav1.HostSoftwareManaged
	}
	if a.managesItself() {
		status.AgentManagement = infrav1.HostSoftwareManaged
	}
	releases, err := (&software.Host{Root: a.Root}).Installed()
	if err != nil {
		a.Log.Error("cannot read what was installed", "err", err)
		return status
	}
	for _, r := range releases[max(0, len(releases)-maxReleases):] {
		status.Releases = append(status.Releases, infrav1.HostSoftwareRelease{
			Version: r.KubernetesVersion, Digest: r.Index.String(), Origin: infrav1.SoftwareOrigin(r.BuiltBy()), Complete: ptr.To(r.State == software.StateInstalled),
		})
	}
	return status
}

// maxReleases is the limit of Host.status.software.releases.
const maxReleases = 32
