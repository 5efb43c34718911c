package upgrade

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/durable"
)

// beforeUpgrade has what an upgrade of a worker changes, as it was. It is there as a whole or not
// at all, which is why no journal tells of it, and from before the first change until the upgrade
// is done or taken back.
const (
	beforeUpgrade = ours + "/kubelet-before-upgrade"
	formerFile    = "before.json"
)

// former is what a worker ran before an upgrade.
type former struct {
	// Version of the kubelet.
	Version string `json:"version"`
	// Programs are the links on PATH, by name.
	Programs map[string]string `json:"programs"`
}

// begun reports whether an upgrade has changed, or was about to change, what the worker runs.
func (u Upgrader) begun() bool {
	_, err := os.Stat(u.Root.Path(beforeUpgrade))
	return err == nil
}

// keepWorker copies the configuration of the kubelet before kubeadm writes it, by truncation:
// a power cut there leaves a kubelet that does not start, and so nothing that would end the
// pods for which the next try waits. A rerun keeps the copy that it finds, since by then the
// files may be new.
func (u Upgrader) keepWorker(ctx context.Context, node Node) error {
	if u.begun() {
		return nil
	}
	current, err := node.Get(ctx)
	if err != nil {
		return operation.Unreachable(err, "read the Node of this host")
	}
	before := former{Version: current.Status.NodeInfo.KubeletVersion}
	if before.Programs, err = u.Versions.Links(); err != nil {
		return err
	}
	kept := u.Root.Path(beforeUpgrade)
	if err := u.keepWhole(kept+".part", kept, before); err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "keep a copy of the configuration of the kubelet in %s", beforeUpgrade)
	}
	return nil
}

func (u Upgrader) keepWhole(part, kept string, before former) error {
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := u.keepKubelet(part); err != nil {
		return err
	}
	data, err := json.Marshal(before)
	if err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(part, formerFile), data, 0o600); err != nil {
		return err
	}
	if err := durable.SyncDir(part); err != nil {
		return err
	}
	if err := durable.Rename(part, kept); err != nil {
		return err
	}
	return durable.SyncDir(u.Root.Path(kubernetes))
}

// mendWorker puts the configuration of the kubelet back where an upgrade was cut off in mid
// write, and waits for nothing: the unit of the kubelet starts it again and again.
func (u Upgrader) mendWorker() error {
	if !u.begun() {
		return nil
	}
	return u.mendKubelet(u.Root.Path(beforeUpgrade))
}

// back has the worker run what it ran before the upgrade, and waits until its Node is ready.
// Without a change it has nothing to do. It may be repeated at any point.
func (u Upgrader) back(ctx context.Context, node Node) error {
	if !u.begun() {
		return nil
	}
	kept := u.Root.Path(beforeUpgrade)
	before := former{}
	data, err := os.ReadFile(filepath.Join(kept, formerFile))
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		return err
	}
	if err := u.restoreKubelet(kept); err != nil {
		return err
	}
	if err := kubelet.RestoreLinks(u.Root, before.Programs); err != nil {
		return err
	}
	since := u.Now()
	if err := u.restart(ctx); err != nil {
		return err
	}
	if err := u.ready(ctx, node, before.Version, since); err != nil {
		return err
	}
	return u.finishWorker()
}

// finishWorker forgets the copy, once no power cut can take back what kubeadm wrote.
func (u Upgrader) finishWorker() error {
	if err := u.flush(kubeletDir); err != nil {
		return err
	}
	if err := os.RemoveAll(u.Root.Path(beforeUpgrade)); err != nil {
		u.Log.Warn("the copy of the configuration of the kubelet is left", "directory", beforeUpgrade, "err", err)
	}
	return nil
}
