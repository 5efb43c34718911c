package manifests

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Extra is a provider beyond the upstream ones, with its YAML files.
type Extra struct {
	Provider Provider
	Files    fs.FS
	// WebhookURL is the base URL of its own webhook server, without a path, if it
	// is not run by the plane's process.
	WebhookURL string
}

// Options configure Manifests. All fields but Extras are required.
type Options struct {
	// Config is an administrator's client configuration.
	Config *rest.Config
	// WebhookURL is the base URL of the webhook server, without a path.
	WebhookURL string
	// CABundle returns the PEM that verifies the webhook server.
	CABundle func() ([]byte, error)
	Extras   []Extra
}

// Manifests are what a plane installs.
type Manifests struct {
	opts Options
	// read fills in what follows, once.
	read      func() error
	objs      []Object
	converted map[schema.GroupVersionKind]bool
}

// New returns Manifests that have not been read.
func New(opts Options) *Manifests {
	c := &Manifests{opts: opts}
	c.read = sync.OnceValue(c.readAll)
	return c
}

// Component is the manifests as a part of the plane: it installs everything during Start and leaves
// nothing running.
func (c *Manifests) Component() component.Component {
	return component.Component{Name: "manifests", Init: c.Init, Start: c.Start}
}

// Init reads the embedded objects.
func (c *Manifests) Init(context.Context) error { return c.read() }

// Converted tells whether a kind that the plane installs is served in that version but
// stored in another one. It may be called before Init, which returns the error when the
// objects cannot be read.
func (c *Manifests) Converted(kind schema.GroupVersionKind) bool {
	return c.read() == nil && c.converted[kind]
}

func (c *Manifests) readAll() error {
	objs, err := Upstream()
	if err != nil {
		return err
	}
	for _, x := range c.opts.Extras {
		extra, err := FromFiles(x.Provider, x.Files)
		if err != nil {
			return err
		}
		objs = append(objs, extra...)
	}
	c.objs = objs
	c.converted, err = converted(objs)
	return err
}

// Start installs them and waits until all CRDs are served.
func (c *Manifests) Start(ctx context.Context) error {
	ca, err := c.opts.CABundle()
	if err != nil {
		return err
	}
	began := time.Now()
	own := map[string]string{}
	for _, x := range c.opts.Extras {
		if x.WebhookURL != "" {
			own[x.Provider.Label()] = x.WebhookURL
		}
	}
	in := &Installer{Config: c.opts.Config, WebhookURL: c.opts.WebhookURL, OwnURLs: own, CABundle: ca}
	result, err := in.Install(ctx, c.objs)
	if err != nil {
		return fmt.Errorf("install the providers' manifests: %w", err)
	}
	// Parsed megabytes that are not needed again.
	c.objs = nil
	klog.Background().WithName("manifests").Info("Installed", "applied", result.Applied, "unchanged", result.Unchanged, "duration", time.Since(began).Round(time.Millisecond))
	return nil
}
