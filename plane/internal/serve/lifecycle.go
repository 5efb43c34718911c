package serve

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/component"
)

// LifecycleOptions configure Lifecycle. All fields are required.
type LifecycleOptions struct {
	// Program is the path of slipway-lifecycle.
	Program string
	// LoggingFormat is the program's --logging-format.
	LoggingFormat string
	// Dir is for files of the program. It is made with mode 0700.
	Dir string
	// Config is the client configuration of the program. It must refer to files, so
	// that the program takes over renewed certificates.
	Config *rest.Config
	// CertDir holds tls.crt and tls.key of lifecycleServer.
	CertDir string
	// ClientCAFile verifies who calls the program's hooks.
	ClientCAFile string
	// Admin registers the extension.
	Admin *rest.Config
	// CABundle returns the PEM that verifies the program. It is asked again while the
	// program runs.
	CABundle func() ([]byte, error)
}

// Lifecycle runs slipway-lifecycle until it is stopped.
type Lifecycle struct {
	component.Task
	opts LifecycleOptions
}

// component is ready at once: a plane without policies needs not wait for the program, and Clusters
// wait at their hooks until it is there.
func (c *Lifecycle) component() component.Component {
	return component.Component{Name: "lifecycle", Init: c.Init, Start: c.Start, Run: c}
}

// Init looks for the program and writes its kubeconfig.
func (c *Lifecycle) Init(context.Context) error {
	if err := component.CheckProgram(c.opts.Program); err != nil {
		return err
	}
	if err := os.MkdirAll(c.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of slipway-lifecycle: %w", err)
	}
	kubeconfig, err := encodeKubeconfig(c.opts.Config)
	if err != nil {
		return err
	}
	return durable.Write(c.kubeconfig(), kubeconfig, 0o600)
}

func (c *Lifecycle) kubeconfig() string { return filepath.Join(c.opts.Dir, "kubeconfig") }

// Start registers the extension, then starts the program. In this order no policy
// can be created, which takes the program's webhook, before it counts.
func (c *Lifecycle) Start(ctx context.Context) error {
	manifest, err := fs.ReadFile(config.Lifecycle, "lifecycle/extension/extensionconfig.yaml")
	if err != nil {
		return err
	}
	extension, err := Register(ctx, RegistrationOptions{Admin: c.opts.Admin, Manifest: manifest, CABundle: c.opts.CABundle})
	if err != nil {
		return err
	}
	c.Go(func(ctx context.Context) error {
		var following sync.WaitGroup
		following.Go(func() { extension.Keep(ctx) })
		c.supervise(ctx, extension)
		following.Wait()
		return nil
	})
	return nil
}

func encodeKubeconfig(config *rest.Config) ([]byte, error) {
	const name = "slipway"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: config.CertFile, ClientKey: config.KeyFile}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig of slipway-lifecycle: %w", err)
	}
	return data, nil
}
