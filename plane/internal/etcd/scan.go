package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// scanPage bounds the memory that Scan takes.
const scanPage = 100

// Scan calls visit with each key that begins with prefix, and its value, until visit
// returns an error, which Scan returns. The server must be ready.
func (s *Server) Scan(ctx context.Context, prefix string, visit func(key string, value []byte) error) error {
	from, end := []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
	for {
		page, err := s.etcd.Server.Range(ctx, &pb.RangeRequest{Key: from, RangeEnd: end, Limit: scanPage})
		if err != nil {
			return fmt.Errorf("read %s of etcd: %w", prefix, err)
		}
		for _, kv := range page.Kvs {
			if err := visit(string(kv.Key), kv.Value); err != nil {
				return err
			}
			from = append(slices.Clone(kv.Key), 0)
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
	}
}

// Scrub makes the database forget every value but the present ones, in its file, too.
// Writes wait meanwhile. The write-ahead log forgets later, as it is cut off.
func (s *Server) Scrub(ctx context.Context) error {
	now, err := s.etcd.Server.Range(ctx, &pb.RangeRequest{Key: []byte{0}, CountOnly: true, Limit: 1})
	if err != nil {
		return fmt.Errorf("read the revision of etcd: %w", err)
	}
	if _, err := s.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: now.Header.Revision, Physical: true}); err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if err := s.etcd.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment etcd: %w", err)
	}
	return nil
}
