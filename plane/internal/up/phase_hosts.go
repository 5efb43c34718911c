package up

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

const (
	// tokenLife is how long local hosts may take to enroll, should `up` end before they have.
	tokenLife = time.Hour
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
	kubeconfig, err := s.bootstrapKubeconfig(ctx, step)
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
				if err := s.createHost(ctx, i+1, kubeconfig); err != nil {
					return failed(ctx, host, name, err)
				}
			}
			host.Waitf("booting")
			if err := s.Hosts.Boot(ctx, name); err != nil {
				return failed(ctx, host, name, err)
			}
			if err := s.replaceToken(ctx, name, kubeconfig); err != nil {
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

func (s *Session) createHost(ctx context.Context, n int, kubeconfig []byte) error {
	ip, err := localhost.IPOf(n)
	if err != nil {
		return err
	}
	files, err := s.agentFiles(hostName(n), kubeconfig)
	if err != nil {
		return err
	}
	return s.Hosts.Create(ctx, localhost.Spec{Name: hostName(n), IP: ip, Files: files})
}

// agentFiles are what a host needs to enroll. One that is enrolled gets no token, which
// would lead it back here from wherever it is handed over to.
func (s *Session) agentFiles(host string, kubeconfig []byte) ([]sandbox.File, error) {
	files := []sandbox.File{{Path: enroll.AgentConfigPath, Mode: 0o644, Content: join.Configuration(Namespace, host)}}
	enrolled, err := s.enrolled(host, time.Now())
	if err == nil && !enrolled {
		files = append(files, sandbox.File{Path: enroll.BootstrapKubeconfigPath, Mode: 0o600, Content: kubeconfig})
	}
	return files, err
}

// replaceKubeconfig puts what is on standard input in the place of a file, unless that is
// the same, and has the agent begin with it.
const replaceKubeconfig = `set -e; umask 077; new=$(cat)
if [ -e "$1" ] && [ "$(cat "$1")" = "$new" ]; then exit 0; fi
printf '%s\n' "$new" >"$1.new"; mv -f "$1.new" "$1"; systemctl restart slipway-agent`

// replaceToken gives a host that is not enrolled the token of this command: it may have run
// since one that was interrupted, with a token that is good for nothing now.
func (s *Session) replaceToken(ctx context.Context, host string, kubeconfig []byte) error {
	if enrolled, err := s.enrolled(host, time.Now()); err != nil || enrolled {
		return err
	}
	return s.script(ctx, host, kubeconfig, replaceKubeconfig, enroll.BootstrapKubeconfigPath)
}

// script runs a script of the shell on a host.
func (s *Session) script(ctx context.Context, host string, in []byte, script string, args ...string) error {
	var out bytes.Buffer
	argv := append([]string{"sh", "-c", script, "sh"}, args...)
	code, err := s.Hosts.Exec(ctx, host, argv, localhost.Stdio{In: bytes.NewReader(in), Out: io.Discard, Err: &out})
	if err == nil && code != 0 {
		err = fmt.Errorf("cannot give it a bootstrap token: exit code %d: %s", code, bytes.TrimSpace(out.Bytes()))
	}
	return err
}

// bootstrapKubeconfig is what local hosts enroll with. The plane makes its certificates
// before all else, so hosts boot while it starts.
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

// token is that of this command. It is kept nowhere: the next one makes another.
func (s *Session) token() (string, error) {
	s.tokenMu.Lock()
	defer s.tokenMu.Unlock()
	var err error
	if s.bootstrapToken == "" {
		s.bootstrapToken, err = enroll.NewToken()
	}
	return s.bootstrapToken, err
}
