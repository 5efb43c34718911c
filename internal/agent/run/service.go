package run

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostlog"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/link/handover"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// ErrAssigned means that the host is in another namespace by now: enroll.Namespace has it.
var ErrAssigned = errors.New("the host was assigned to another namespace")

// Service serves one host in one namespace.
type Service struct {
	Enroller *enroll.Enroller
	Journal  *journal.Journal
	// Options of the agent, but Config, Journal, HandOver, Disconnected, Refused and
	// CertificateExpires, which depend on the management cluster. An agent on trial stays in
	// its management cluster and namespace.
	Options link.Options
	// Configured is the namespace in the configuration of the agent, which the host may have
	// left since. Default that of Options.
	Configured string
	// Patience is how long a management cluster may be away before the agent looks for
	// its host where it was told to. Default handover.DefaultPatience.
	Patience time.Duration
	// Serving is called with each new agent and must end with the context; its error
	// ends the service. May be nil.
	Serving func(ctx context.Context, a *link.Agent, session *enroll.Session) error
	Log     *slog.Logger
}

// Run blocks until the context ends, or the host is in another namespace: ErrAssigned. Any
// other error means that the state directory cannot be used, or is that of Serving.
func (s *Service) Run(ctx context.Context) error {
	for {
		session, err := s.Enroller.Enroll(ctx)
		if err != nil {
			return err
		}
		if err := s.serve(ctx, session); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// serve returns when the host was taken over by another management cluster, or went to another
// namespace of this one.
func (s *Service) serve(ctx context.Context, session *enroll.Session) error {
	client, err := kube.New(session.Config())
	if err != nil {
		return err
	}
	var served *link.Agent
	keeper, err := handover.New(handover.Options{
		StateDir: s.Enroller.StateDir, Namespace: s.Options.Namespace, HostName: s.Options.HostName, HostID: s.Options.HostID,
		Session: session, Secrets: client, Progress: s.progress, Answered: func() { served.Beat() }, Patience: s.Patience, Log: s.Log,
	})
	if err != nil {
		return err
	}
	follower := handover.NewFollower(handover.FollowerOptions{
		Namespace: s.Options.Namespace, HostName: s.Options.HostName, HostID: s.Options.HostID, Configured: cmp.Or(s.Configured, s.Options.Namespace),
		Session: session, Progress: s.progress, Log: s.Log,
	})
	logs := hostlog.New(hostlog.Options{
		Namespace: s.Options.Namespace, HostName: s.Options.HostName, Requests: client, Read: hostlog.Journal, Now: time.Now, Log: s.Log,
	})
	session.OnGone(func() { keeper.Unserved(nil) })
	if served, err = link.New(s.options(session, keeper, follower, logs)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context){session.Run, served.Run} {
		group.Go(func() error {
			run(ctx)
			return nil
		})
	}
	if s.Serving != nil {
		group.Go(func() error { return s.Serving(ctx, served, session) })
	}
	if !s.Options.Trial {
		group.Go(func() error {
			logs.Run(ctx)
			return nil
		})
		group.Go(func() error {
			keeper.Run(ctx)
			cancel()
			return nil
		})
		group.Go(func() error {
			if follower.Run(ctx) != "" {
				return ErrAssigned
			}
			return nil
		})
	}
	err = group.Wait()
	session.CloseConnections()
	return err
}

// options of an agent in one management cluster.
func (s *Service) options(session *enroll.Session, keeper *handover.Keeper, follower *handover.Follower, logs *hostlog.Answerer) link.Options {
	o := s.Options
	o.Config, o.Journal, o.HandOver = session.Config(), s.Journal, keeper
	o.Disconnected, o.Refused, o.CertificateExpires = session.CloseConnections, session.Refused, session.Expires
	o.Served = func(h *infrav1.Host) {
		session.Served()
		follower.Served(h)
		logs.Served(h)
		if s.Options.Served != nil {
			s.Options.Served(h)
		}
	}
	return o
}

// progress is what a hand-over has to respect: an operation at work ends first.
func (s *Service) progress() (generation int64, busy bool) {
	state := s.Journal.State()
	return state.ClaimGeneration, state.Running() && state.Operation.Active
}
