package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	snapshotclient "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// revisionBump is what Restore adds to the revision, as etcd's documentation on disaster recovery
// proposes: a store that writes a thousand times a second needs 11 days for it.
const revisionBump = 1_000_000_000

// walkPage is the number of keys that Walk reads at once.
const walkPage = 500

// Save writes a snapshot of the etcd that serves dir to the file at path, which must not exist. It
// ends with its SHA-256, which Restore checks.
func Save(ctx context.Context, dir, path string) error {
	config := clientv3.Config{Endpoints: []string{New(Options{Dir: dir}).Endpoint()}, Context: ctx, Logger: zap.NewNop()}
	if _, err := snapshotclient.SaveWithVersion(ctx, zap.NewNop(), config, path); err != nil {
		return fmt.Errorf("snapshot of etcd: %w", err)
	}
	return nil
}

// Restore makes dir, which must not exist, from the snapshot at path. Revisions continue far above those of
// the snapshot, and those in between count as compacted: a client that has seen the store after
// the snapshot was made, and watches on from there, is told so and lists again. Without that it would miss,
// without an error, every change until the store has passed what it saw last.
func Restore(path, dir string) error {
	config := peers()
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        path,
		OutputDataDir:       dir,
		OutputWALDir:        filepath.Join(dir, "member", "wal"),
		Name:                config.Name,
		PeerURLs:            []string{config.AdvertisePeerUrls[0].String()},
		InitialCluster:      config.InitialCluster,
		InitialClusterToken: config.InitialClusterToken,
		RevisionBump:        revisionBump,
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	return nil
}

// peers is what a member says of itself, which a restored directory has in its log.
func peers() *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "plane"
	// URLs must be host:port; in a cluster of one nobody dials them.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "localhost:2379"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg
}

// startPause is how long Open waits between two looks at an etcd that starts.
const startPause = 20 * time.Millisecond

// Open starts a Server that is no part of a plane, and returns once it is ready. The caller stops it.
func Open(ctx context.Context, opts Options) (*Server, error) {
	s := New(opts)
	if err := s.Init(ctx); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	for {
		err := s.Ready(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-s.Done():
			return nil, errors.Join(err, s.Err())
		case <-ctx.Done():
			return nil, err
		case <-time.After(startPause):
		}
	}
}

// Walk calls visit with each key that begins with prefix, in order, at one revision, which it returns. The
// server must be ready.
func (s *Server) Walk(ctx context.Context, prefix string, visit func(key, value []byte) error) (revision int64, err error) {
	end := []byte(clientv3.GetPrefixRangeEnd(prefix))
	for from := []byte(prefix); ; {
		page, err := s.etcd.Server.Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: end, Limit: walkPage, Revision: revision})
		if err != nil {
			return 0, fmt.Errorf("read %s of etcd: %w", prefix, err)
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			if err := visit(kv.Key, kv.Value); err != nil {
				return 0, err
			}
		}
		if !page.More {
			return revision, nil
		}
		from = slices.Concat(page.Kvs[len(page.Kvs)-1].Key, []byte{0})
	}
}
