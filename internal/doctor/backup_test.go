package doctor

import (
	"time"

	"github.com/slipway-dev/slipway/internal/snapshot"
)

// backedUp has the last backup of the plane made so long ago.
func backedUp(d time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Plane.LastBackup = &snapshot.PlaneBackup{Created: now.Add(-d), Path: "/mnt/backups/plane"}
	}
}

// serving is a plane for hosts on other machines that started so long ago.
func serving(d time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		start := now.Add(-d)
		s.Plane.Start, s.Plane.HostServer = &start, "https://192.0.2.1:6443"
	}
}

const planeName = "Plane https://127.0.0.1:1"

var _ = add([]testCase{
	{"a backup of yesterday", backedUp(30 * time.Hour), nil},
	{"a backup of last week", backedUp(7 * 24 * time.Hour), []want{{"BackupOld", Warning, planeName, 5 * 24 * time.Hour, "the last backup is 7d old: /mnt/backups/plane", "slipway backup create "}}},
	{"never backed up", serving(72 * time.Hour), []want{{"BackupOld", Warning, planeName, 72 * time.Hour, "the plane was never backed up", "slipway backup create "}}},
	{"not backed up on the first day", serving(time.Hour), []want{{"BackupOld", Note, planeName, time.Hour, "the plane was never backed up", "slipway backup create "}}},
}...)
