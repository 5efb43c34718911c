package doctor

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// backupOld is how old a backup may be: one that is made each day was left out once.
const backupOld = 48 * time.Hour

var _ = register(Check{
	Layer:  Plane + 4,
	Name:   "BackupOld",
	Means:  "the last backup of this machine's plane is older than two days, or a plane for hosts on other machines has clusters and was never backed up; that is a note on its first day",
	Remedy: "Run `slipway backup create`, and have a timer do it each day. What changed since the last backup is lost with the machine.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || !s.Plane.Ready {
			return nil
		}
		f := Finding{Severity: Warning, Object: Object{Kind: "Plane", Name: s.Plane.Server}}
		switch last := s.Plane.LastBackup; {
		case last != nil && s.Now.Sub(last.Created) > backupOld:
			f = f.since(last.Created.Add(backupOld))
			f.Message = "the last backup is " + duration.HumanDuration(s.Now.Sub(last.Created)) + " old: " + last.Path
		case last == nil && s.Plane.HostServer != "" && len(s.Clusters) > 0 && s.Plane.Start != nil:
			f = f.since(*s.Plane.Start)
			if s.Now.Sub(*s.Plane.Start) < 24*time.Hour {
				f.Severity = Note
			}
			f.Message = "the plane was never backed up"
		default:
			return nil
		}
		return []Finding{f.next("slipway backup create --to DIRECTORY --recipient KEY")}
	},
})
