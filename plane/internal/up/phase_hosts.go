package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/atomicfile"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

const (
	// tokenLife is how long local hosts may take to enroll; each `up` renews it.
	tokenLife = 24 * time.Hour
	// bootsAtOnce keeps a machine with few cores from thrashing.
	bootsAtOnce = 4
)

// hostName of the nth host, from 1.
func hostName(n int) string { return fmt.Sprintf("host-%d", n) }

// hostNames are those of the local hosts there shall be, in their order, then of those an
// earlier run made besides.
func (s *Session) hostNames(ctx context.Context) ([]string, error) {
	names := make([]string, 0, s.Options.Hosts)
	for n := 1; n <= s.Options.Hosts; n++ {
		names = append(names, hostName(n))
	}
	earlier, err := s.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, host := range earlier {
		if !slices.Contains(names, host.Name) {
			names = append(names, host.Name)
		}
	}
	return names, nil
}

// bootHosts makes the local hosts there shall be and boots all there are: hosts
// of an earlier run with more of them stay.
func (s *Session) bootHosts(ctx context.Context, step *progress.Step) error {
	if err := s.Instance.Network().Ensure(ctx); err != nil {
		return err
	}
	files, err := s.agentFiles(ctx, step)
	if err != nil {
		return err
	}
	names, err := s.hostNames(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bootsAtOnce)
	for i, name := range names {
		host := step.Step(name)
		group.Go(func() error {
			if i < s.Options.Hosts {
				host.Waitf("preparing its disk")
				if err := s.createHost(ctx, i+1, files(name)); err != nil {
					return failed(ctx, host, name, err)
				}
			}
			host.Waitf("booting")
			if err := s.Hosts.Boot(ctx, name); err != nil {
				return failed(ctx, host, name, err)
			}
			host.Donef("booted")
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	step.Donef("%d booted", len(names))
	return nil
}

// failed tells a host that failed from one that was given up because of another.
func failed(ctx context.Context, step *progress.Step, host string, err error) error {
	if ctx.Err() != nil {
		giveUp(ctx, step)
	} else {
		step.Fail()
	}
	return fmt.Errorf("%s: %w", host, err)
}

func (s *Session) createHost(ctx context.Context, n int, files []sandbox.File) error {
	ip, err := localhost.IPOf(n)
	if err != nil {
		return err
	}
	return s.Hosts.Create(ctx, localhost.Spec{Name: hostName(n), IP: ip, Files: files})
}

// agentFiles returns what a host needs to enroll. The plane makes its certificates
// before all else, so hosts boot while it starts.
func (s *Session) agentFiles(ctx context.Context, step *progress.Step) (func(host string) []sandbox.File, error) {
	kubeconfig, err := s.bootstrapKubeconfig(ctx, step)
	if err != nil {
		return nil, err
	}
	return func(host string) []sandbox.File {
		return []sandbox.File{
			{Path: enroll.AgentConfigPath, Mode: 0o644, Content: join.Configuration(Namespace, host)},
			{Path: enroll.BootstrapKubeconfigPath, Mode: 0o600, Content: kubeconfig},
		}
	}, nil
}

// bootstrapKubeconfig is what local hosts enroll with.
func (s *Session) bootstrapKubeconfig(ctx context.Context, step *progress.Step) ([]byte, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	ca, err := s.authority(ctx, step)
	if err != nil {
		return nil, err
	}
	return join.BootstrapKubeconfig(s.Instance.Server(), ca, token)
}

// token is kept in the state directory, so that a second run writes the same
// files to the hosts.
func (s *Session) token() (string, error) {
	s.tokenMu.Lock()
	defer s.tokenMu.Unlock()
	path := s.Instance.Path("bootstrap-token")
	data, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token, err := enroll.NewToken()
	if err != nil {
		return "", err
	}
	return token, atomicfile.Write(path, []byte(token+"\n"), 0o600)
}
