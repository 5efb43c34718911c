package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

const (
	// DefaultQuota is the size the database may reach, in bytes.
	DefaultQuota int64 = 2 << 30

	// walSegment is the preallocated size of one segment of the write-ahead
	// log, in bytes. etcd keeps two; its own 64 MB are made for larger stores.
	walSegment int64 = 8 << 20

	// snapshotEvery is the number of writes after which the log is cut off.
	snapshotEvery = 10_000

	// maxSocketPath is the longest path a unix socket can have on Linux.
	maxSocketPath = 107

	alarmInterval = 5 * time.Second
)

// Options configure a Server.
type Options struct {
	// Dir holds the data and the socket. It is made with mode 0700. Required.
	Dir string

	// Fast skips every fsync. A crash of the machine, though not of the
	// process, may then lose or corrupt the data.
	Fast bool

	// Quota is the size the database may reach, in bytes, before writes are
	// refused. Default DefaultQuota.
	Quota int64

	// Quiet writes no log, for a command that reads what a plane wrote.
	Quiet bool
}

// Server is the etcd component.
type Server struct {
	opts  Options
	etcd  *embed.Etcd
	fatal *fatalHook
	drain *drain
	watch component.Task

	closing sync.Once
	closed  chan struct{}
}

// New returns a Server that has not been started.
func New(opts Options) *Server {
	if opts.Quota == 0 {
		opts.Quota = DefaultQuota
	}
	return &Server{opts: opts, fatal: newFatalHook(), drain: newDrain(), closed: make(chan struct{})}
}

// Component is the server as a part of the plane.
func (s *Server) Component() component.Component {
	return component.Component{Name: "etcd", Init: s.Init, Start: s.Start, Ready: s.Ready, Run: s}
}

// Endpoint is the URL at which clients reach the server.
func (s *Server) Endpoint() string { return "unix://" + s.socket() }

func (s *Server) socket() string { return filepath.Join(s.opts.Dir, "etcd.sock") }

// Init makes the directory and looks for what would make etcd hang or die. It
// returns a *LockedError when another process uses the data, a *NoSpaceError
// when the disk is full.
func (s *Server) Init(context.Context) error {
	if n := len(s.socket()); n > maxSocketPath {
		return fmt.Errorf("the path of the socket %s has %d characters, Linux allows %d: choose a shorter state directory",
			s.socket(), n, maxSocketPath)
	}
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make etcd's data directory: %w", err)
	}
	if err := checkSpace(s.opts.Dir); err != nil {
		return err
	}
	return checkLock(filepath.Join(s.opts.Dir, "member", "snap", "db"))
}

// Start returns once etcd has opened its data.
func (s *Server) Start(ctx context.Context) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	// In its own goroutine, because the fatal hook ends the one it is called in.
	started := make(chan result, 1)
	go func() {
		e, err := embed.StartEtcd(cfg)
		started <- result{e, err}
	}()
	select {
	case r := <-started:
		if r.err != nil {
			return s.explain(r.err)
		}
		s.etcd = r.etcd
	case <-s.fatal.Done():
		return s.explain(s.fatal.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	s.watch.Go(s.watchAlarms)
	return nil
}

func (s *Server) config() (*embed.Config, error) {
	// A package variable is etcd's only way to set it; the plane runs one etcd.
	wal.SegmentSizeBytes = walSegment

	client, err := url.Parse(s.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("socket of etcd: %w", err)
	}
	cfg := peers()
	cfg.Dir = s.opts.Dir
	cfg.ListenClientUrls = []url.URL{*client}
	cfg.ListenPeerUrls = nil
	cfg.UnsafeNoFsync = s.opts.Fast
	cfg.QuotaBackendBytes = s.opts.Quota
	cfg.SnapshotCount = snapshotEvery
	cfg.SnapshotCatchUpEntries = snapshotEvery / 2
	cfg.MaxWalFiles, cfg.MaxSnapFiles = 2, 2
	// A member that is alone waits for nobody: short ticks only make its own
	// election, and so the start, quicker.
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
	// Otherwise zero, which reports every request as slow.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(s.drain.intercept)}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(s.fatal, s.opts.Quiet))
	return cfg, nil
}

// Ready counts a full database as not ready.
func (s *Server) Ready(context.Context) error {
	select {
	case <-s.fatal.Done():
		return s.explain(s.fatal.Err())
	case <-s.etcd.Server.ReadyNotify():
	default:
		return errors.New("waiting for etcd to read its log")
	}
	for _, a := range s.etcd.Server.Alarms() {
		switch a.Alarm {
		case pb.AlarmType_NONE:
		case pb.AlarmType_NOSPACE:
			return &QuotaError{Quota: s.opts.Quota}
		case pb.AlarmType_CORRUPT:
			return fmt.Errorf("etcd found its data in %s to be corrupt: restore a copy of the directory, or start afresh with an empty one", s.opts.Dir)
		}
	}
	return nil
}

// Done implements component.Running: etcd ends by itself when it cannot write.
func (s *Server) Done() <-chan struct{} { return s.fatal.Done() }

// Err implements component.Running.
func (s *Server) Err() error { return s.explain(s.fatal.Err()) }

// Stop implements component.Running.
func (s *Server) Stop(ctx context.Context) error {
	if s.etcd == nil {
		return nil
	}
	if err := s.watch.Stop(ctx); err != nil {
		return err
	}
	select {
	case <-s.fatal.Done():
		// The goroutine that died may hold etcd's locks; closing would hang.
		return nil
	default:
	}
	s.drain.cancel()
	s.closing.Do(func() {
		go func() {
			defer close(s.closed)
			s.etcd.Close()
		}()
	})
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Any reports whether there is a key that begins with prefix. The server must be ready.
func (s *Server) Any(ctx context.Context, prefix string) (bool, error) {
	found, err := s.etcd.Server.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), CountOnly: true})
	if err != nil {
		return false, fmt.Errorf("read %s of etcd: %w", prefix, err)
	}
	return found.Count > 0, nil
}
