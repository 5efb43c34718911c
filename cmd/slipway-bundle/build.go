package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/internal/hostbundle/upstream"
	"github.com/slipway-dev/slipway/internal/version"

	"github.com/slipway-dev/slipway/cmd/slipway-bundle/sigstore"
)

// sources is where upstream publishes; tests replace it.
var sources = upstream.Upstream

func help() string {
	return strings.NewReplacer("{{containerd}}", upstream.DefaultContainerd, "{{runc}}", upstream.DefaultRunc, "{{cni}}", upstream.DefaultCNIPlugins,
		"{{cache}}", "slipway/upstream in the user's cache directory").Replace(usage)
}

// list is a flag that may be given several times.
type list []string

// String implements flag.Value.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(value string) error {
	if value == "" {
		return errors.New("want a value")
	}
	*l = append(*l, value)
	return nil
}

// optional are the flags that need not be given.
var optional = []string{"agent", "arch", "cache", "ca-file", "cni-plugins", "containerd", "from", "image", "lock", "mirror", "node-bundle", "images", "registry-config", "runc", "trusted-root", "urls"}

// fetching adds the flags of downloads.
func fetching(flags *flag.FlagSet) *upstream.Fetcher {
	f := &upstream.Fetcher{Progress: (&progress{to: os.Stderr}).told}
	flags.Var((*list)(&f.Mirrors), "mirror", "address of a mirror")
	flags.StringVar(&f.Cache, "cache", "", "directory that keeps what was verified")
	flags.StringVar(&f.CAFile, "ca-file", "", "file with CAs")
	flags.StringVar(&f.ConfigFile, "registry-config", "", "file with credentials")
	return f
}

// prepare makes the directory for downloads.
func prepare(f *upstream.Fetcher) error {
	if f.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w; name a directory by --cache", err)
		}
		f.Cache = filepath.Join(dir, "slipway", "upstream")
	}
	return os.MkdirAll(f.Cache, 0o700)
}

// lock writes a lock, or what it names.
func lock(ctx context.Context, args []string, out io.Writer) error {
	var request upstream.Request
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		request.Kubernetes, args = args[0], args[1:]
	}
	flags := newFlags("lock")
	f := fetching(flags)
	urls := flags.String("urls", "", "file with a lock")
	architectures := flags.String("arch", runtime.GOARCH, "architectures")
	root := flags.String("trusted-root", "", "file with the trust root of Sigstore")
	flags.Var((*list)(&request.Images), "image", "a further image")
	flags.StringVar(&request.Containerd, "containerd", upstream.DefaultContainerd, "version of containerd")
	flags.StringVar(&request.Runc, "runc", upstream.DefaultRunc, "version of runc")
	flags.StringVar(&request.CNIPlugins, "cni-plugins", upstream.DefaultCNIPlugins, "version of the CNI plugins")
	if err := parse(flags, args, optional...); err != nil {
		return err
	}
	if *urls != "" {
		return printURLs(*urls, out)
	}
	request.Architectures = strings.Split(*architectures, ",")
	if err := errors.Join(request.Validate(), prepare(f)); err != nil {
		return err
	}
	trusted, err := sigstore.Root(*root)
	if err != nil {
		return err
	}
	verifier, err := sigstore.New(trusted, sources.Signer, sources.Rekor, send(f))
	if err != nil {
		return err
	}
	r := &upstream.Resolver{Sources: sources, Fetcher: f, Verify: verifier.Verify, ListImages: upstream.RunKubeadm, Machine: runtime.GOARCH}
	l, err := r.Lock(ctx, request)
	if err != nil {
		return err
	}
	data, err := l.Marshal()
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// send reads from the transparency log, which no mirror has.
func send(f *upstream.Fetcher) sigstore.Send {
	return func(ctx context.Context, url string, body []byte) ([]byte, error) {
		file, err := registry.NewFile(registry.Options{Address: url, CAFile: f.CAFile})
		if err != nil {
			return nil, err
		}
		return file.Small(ctx, body)
	}
}

func readLock(file string) (*upstream.Lock, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l, err := upstream.ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

func printURLs(file string, out io.Writer) error {
	l, err := readLock(file)
	if err != nil {
		return err
	}
	contents, err := l.Contents()
	if err != nil {
		return err
	}
	for _, c := range contents {
		if _, err := fmt.Fprintln(out, c.URL, c.Path); err != nil {
			return err
		}
	}
	return nil
}

// build writes the bundles of locks, or of a node bundle.
func build(ctx context.Context, args []string) error {
	flags := newFlags("build")
	f := fetching(flags)
	var locks list
	agents := programs{}
	flags.Var(&locks, "lock", "file with a lock")
	flags.StringVar(&f.From, "from", "", "directory with what a lock names")
	nodeBundle := flags.String("node-bundle", "", "directory of the node bundle")
	images := flags.String("images", "", "directory of the image archives")
	privateKey := flags.String("private-key", "", "file with the private key")
	output := flags.String("output", "", "directory to write, empty or not there yet")
	flags.Var(agents, "agent", "slipway-agent for an architecture")
	if err := parse(flags, args, optional...); err != nil {
		return err
	}
	if (len(locks) > 0) == (*nodeBundle != "" && *images != "") {
		return errors.New("slipway-bundle build: want --lock, or --node-bundle and --images")
	}
	signer, err := readSigner(*privateKey)
	if err != nil {
		return err
	}
	w, err := hostbundle.NewWriter(*output, signer)
	if err != nil {
		return err
	}
	var versions []string
	if len(locks) > 0 {
		versions, err = packLocks(ctx, w, f, locks)
	} else {
		versions, err = recipe.Build(w, *nodeBundle, *images)
	}
	what := "Kubernetes " + strings.Join(versions, " and ")
	if err == nil && len(agents) > 0 {
		err = recipe.Agent(w, version.Version, agents)
		what += ", and of slipway-agent " + version.Version
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return errors.Join(err, w.Discard())
	}
	fmt.Printf("host bundles of %s in %s, signed by %s\n", what, filepath.Clean(*output), signer.Name())
	return nil
}

func packLocks(ctx context.Context, w *hostbundle.Writer, f *upstream.Fetcher, files []string) ([]string, error) {
	if err := prepare(f); err != nil {
		return nil, err
	}
	var versions []string
	for _, file := range files {
		l, err := readLock(file)
		if err != nil {
			return nil, err
		}
		if err := upstream.Pack(ctx, w, l, f.Get); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		versions = append(versions, l.Kubernetes)
	}
	return versions, nil
}

// progress prints a line for each file, and one every few seconds for large ones.
type progress struct {
	to   io.Writer
	mu   sync.Mutex
	last time.Time
}

func (p *progress) told(url string, have, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < size && time.Since(p.last) < 5*time.Second {
		return
	}
	p.last = time.Now()
	_, _ = fmt.Fprintf(p.to, "%3d %% of %5.1f MiB  %s\n", have*100/max(size, 1), float64(size)/(1<<20), url)
}
