package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// Session is one run of `slipway up`.
type Session struct {
	// Instance whose plane is brought up.
	Instance *instance.Instance
	// Hosts manages the local hosts.
	Hosts *localhost.Manager
	// Lifecycle is the path of slipway-lifecycle, which the plane runs.
	Lifecycle string
	// Lock of the instance.
	Lock *instance.Lock
	// Options the user chose, completed.
	Options Options
	// Progress shows what is waited for.
	Progress *progress.Tree
	// Console opens the console once the plane answers, and returns its address; nil when
	// nobody asked for it.
	Console func() (string, error)
	// Service is how systemd runs the plane; nil for a plane that is not a service.
	Service *service.Service

	client client.WithWatch // set by the plane phase
	nodes  status.NodeLister

	tokenMu        sync.Mutex // guards bootstrapToken: two phases want it first
	bootstrapToken string
	begun          bool
	started        time.Time        // when Run was called
	away           bool             // set by the machine phase: local hosts belong elsewhere
	hostless       bool             // set by the machine phase: there are no local hosts, and shall be none
	program        string           // what runs the plane; this command's own when empty
	exit           *os.ProcessState // how the supervisor ended that this command started
	crashes        int              // those of the plane that were shown
	restarted      bool             // the plane phase had systemd start the plane
	asked          time.Time        // when it talked to systemd last
}

// phase is one step that the user sees. It returns nil when what it stands for
// is there, whether or not it was there before.
type phase struct {
	name string
	// requests says that it fails when the plane does not answer, and may be run again.
	requests bool
	skip     func(*Session) bool
	run      func(*Session, context.Context, *progress.Step) error
}

// stages run one after the other; the phases of a stage run at the same time.
var stages = [][]phase{
	{{name: "machine", run: (*Session).checkMachine}},
	{{name: "plane", run: (*Session).startPlane}, {name: "hosts", skip: (*Session).withoutHosts, run: (*Session).bootHosts}},
	{
		{name: "enrollment", requests: true, skip: (*Session).withoutEnrollment, run: (*Session).enrollHosts},
		{name: "cluster", requests: true, skip: (*Session).withoutCluster, run: (*Session).applyCluster},
		{name: "console", skip: (*Session).withoutConsole, run: (*Session).openConsole},
	},
	{{name: "nodes", requests: true, skip: (*Session).withoutCluster, run: (*Session).waitForNodes}},
}

func (s *Session) withoutHosts() bool { return s.hostless }

func (s *Session) withoutEnrollment() bool { return s.withoutHosts() || s.away }

func (s *Session) withoutCluster() bool { return s.Options.File == nil || s.away }

func (s *Session) withoutConsole() bool { return s.Console == nil }

// openConsole shows the plane in a browser while the rest comes up.
func (s *Session) openConsole(_ context.Context, step *progress.Step) error {
	address, err := s.Console()
	if err != nil {
		return err
	}
	s.Progress.Note("Watch it in one browser at " + address)
	step.Donef("")
	return nil
}

// Begun reports whether Run has got beyond looking: there may be something now
// that `slipway down` has to take down.
func (s *Session) Begun() bool { return s.begun }

// errTimeout is the cause of a context that ended with Options.Timeout.
var errTimeout = errors.New("timed out")

// TimeoutError says what Run still waited for after Options.Timeout. It goes on as
// far as the plane does it without Run.
type TimeoutError struct {
	After time.Duration
	// Pending are the steps with what they wait for.
	Pending []string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not all is ready after %s: %s", e.After, strings.Join(e.Pending, "; "))
}

// Run brings everything up, or says what could not be.
func (s *Session) Run(ctx context.Context) error {
	s.started = time.Now()
	if s.Options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Options.Timeout, errTimeout)
		defer cancel()
	}
	err := s.runStages(ctx)
	if errors.Is(err, errTimeout) {
		return &TimeoutError{After: s.Options.Timeout, Pending: s.Progress.Pending()}
	}
	return err
}

func (s *Session) runStages(ctx context.Context) error {
	for n, stage := range stages {
		s.begun = n > 0
		group, ctx := errgroup.WithContext(ctx)
		for _, p := range stage {
			if p.skip != nil && p.skip(s) {
				continue
			}
			step := s.Progress.Step(p.name)
			group.Go(func() error { return runPhase(ctx, s, p, step) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func runPhase(ctx context.Context, s *Session, p phase, step *progress.Step) error {
	err := p.run(s, ctx, step)
	for p.requests && ctx.Err() == nil && (answer.Unreached(err) || answer.Away(err)) {
		if ended := s.servesAgain(ctx, step, err); ended != nil {
			err = ended
			break
		}
		err = p.run(s, ctx, step)
	}
	if ctx.Err() != nil && err != nil {
		giveUp(ctx, step)
		return context.Cause(ctx)
	}
	if err != nil {
		step.Fail()
		return fmt.Errorf("%s: %w", p.name, s.explain(err))
	}
	return nil
}

// servesAgain waits for a plane that crashed after it was ready to be started again, or that was too busy to
// answer. It is an error when nobody starts it again.
func (s *Session) servesAgain(ctx context.Context, step *progress.Step, cause error) error {
	step.Waitf("the plane does not answer, waiting for it")
	return poll(ctx, pollInterval, func() (bool, error) {
		_, running, err := statedir.Running(s.Instance.Dir)
		if err == nil && !running && s.Service == nil {
			err = fmt.Errorf("the plane has ended: %w", cause)
		}
		return err == nil && s.serves(ctx), err
	})
}

// giveUp shows why a step ends early. After a timeout what it waited for is the news.
func giveUp(ctx context.Context, step *progress.Step) {
	if !errors.Is(context.Cause(ctx), errTimeout) {
		step.Waitf("interrupted")
	}
}
