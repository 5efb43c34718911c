package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Defaults of Options.
const (
	DefaultName        = "slipway"
	DefaultBind        = ":6443"
	DefaultWebhookPort = 9443
)

// Options configure a plane.
type Options struct {
	// StateDir holds everything the plane keeps. It is made with mode 0700.
	// Required.
	StateDir string

	// Lock of the state directory, which a supervisor passed on. Default: the plane takes it.
	Lock *statedir.Lock

	// Name is the name of the instance, for people. Default DefaultName.
	Name string

	// Bind is the address the API server listens on, host:port. Default
	// DefaultBind.
	Bind string

	// Listener, when set, is used instead of Bind.
	Listener net.Listener

	// Doors are further sockets by which the API server is reached: on the loopback of the
	// machine, and for hosts on other machines. Default none.
	Doors []network.Door

	// Advertise is the address by which hosts reach the API server; it is in
	// the serving certificate. Default none beyond loopback.
	Advertise net.IP

	// Outside is how hosts on other machines reach the API server: it is in the serving
	// certificate, and in the status. Who calls listens there. Default nil, for not at all.
	Outside *statedir.Outside

	// Foreground says that somebody else than `slipway up` or systemd started the plane.
	Foreground bool

	// Service says that systemd did, as `slipway install` has it.
	Service bool

	// AdminServer is the URL written into the administrator's kubeconfig.
	// Default https://127.0.0.1:<port of the API server>.
	AdminServer string

	// WebhookPort is the port of the webhook server on 127.0.0.1. Default
	// DefaultWebhookPort.
	WebhookPort int

	// Fast trades safety against a crash of the machine for speed: etcd does
	// not call fsync.
	Fast bool

	// FeatureGates of Cluster API ("Name=true,Other=false"), beside those that a plane
	// turns on.
	FeatureGates string

	// NoAuditLog turns the API server's audit log off.
	NoAuditLog bool

	// DialExtension connects to runtime extensions. Default: from the network
	// namespace of the process.
	DialExtension func(ctx context.Context, network, address string) (net.Conn, error)

	// Providers are run, and their manifests installed, beside upstream's.
	Providers []Provider

	// Extensions are served by the providers, and registered.
	Extensions []Extension

	// LifecycleProgram is the path of slipway-lifecycle, which runs beside the plane.
	// Empty for a plane without.
	LifecycleProgram string

	// LoggingFormat is that program's --logging-format. Default text. The log of this
	// process is up to the caller.
	LoggingFormat string

	// Progress, when set, is told each change. Calls never overlap.
	Progress func(component.Event)

	// Ready, when set, is called once all components are ready. An error ends the plane.
	Ready func() error
}

// Extension is a runtime extension that a provider serves in this process.
type Extension struct {
	// Server is its certificate.
	Server pki.Server
	// Manifest is its ExtensionConfig, as clusterctl would install it.
	Manifest []byte
}

// Provider is a provider of ours with what it installs.
type Provider struct {
	capi.Provider
	Manifests manifests.Extra
}

func (o *Options) complete() error {
	if o.StateDir == "" {
		return errors.New("no state directory given")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	o.StateDir = dir
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.WebhookPort == 0 {
		o.WebhookPort = DefaultWebhookPort
	}
	if o.Listener != nil {
		o.Bind = o.Listener.Addr().String()
	}
	if o.Bind == "" {
		o.Bind = DefaultBind
	}
	if o.AdminServer == "" {
		o.AdminServer = o.loopback()
	}
	return nil
}

// loopback is the URL by which the plane's own components reach the API server.
func (o *Options) loopback() string {
	_, port, err := net.SplitHostPort(o.Bind)
	if err != nil {
		return ""
	}
	return "https://" + net.JoinHostPort("127.0.0.1", port)
}

// subjects are the addresses and names by which the API server is reached beyond loopback.
func (o *Options) subjects() (addresses []net.IP, names []string) {
	if o.Advertise != nil {
		addresses = append(addresses, o.Advertise)
		if ip, _ := netip.AddrFromSlice(o.Advertise); network.Subnet.Contains(ip.Unmap()) {
			addresses = append(addresses, network.IPv6(ip.Unmap()).AsSlice())
		}
	}
	if o.Outside == nil {
		return addresses, nil
	}
	outside, names := o.Outside.Subjects()
	return append(addresses, outside...), names
}

func (o *Options) webhookURL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(o.WebhookPort))
}
