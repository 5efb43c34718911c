package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/klog/v2"
)

// watchAlarms gives a database that reached its quota its space back. etcd
// itself leaves that to an administrator with etcdctl.
func (s *Server) watchAlarms(ctx context.Context) error {
	log := klog.Background().WithName("etcd")
	ticker := time.NewTicker(alarmInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := s.relieve(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "The database is full", "quotaBytes", s.opts.Quota)
		}
	}
}

// relieve disarms the NOSPACE alarm when deleted and compacted data leaves room
// below the quota. It returns an error while the alarm stands.
func (s *Server) relieve(ctx context.Context) error {
	full := false
	for _, a := range s.etcd.Server.Alarms() {
		full = full || a.Alarm == pb.AlarmType_NOSPACE
	}
	if !full {
		return nil
	}
	be := s.etcd.Server.Backend()
	// Defragmenting blocks writes, which are refused now anyway.
	if be.SizeInUse() < s.opts.Quota*9/10 && be.Size() >= s.opts.Quota*9/10 {
		if err := be.Defrag(); err != nil {
			return fmt.Errorf("defragment: %w", err)
		}
	}
	if be.Size() >= s.opts.Quota*9/10 {
		return &QuotaError{Quota: s.opts.Quota}
	}
	_, err := s.etcd.Server.Alarm(ctx, &pb.AlarmRequest{
		Action:   pb.AlarmRequest_DEACTIVATE,
		MemberID: uint64(s.etcd.Server.MemberID()),
		Alarm:    pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("disarm the alarm: %w", err)
	}
	return nil
}
