package upgrade

import (
	"os"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
)

// beforeUpgrade has the configuration of a worker's kubelet as it was. It is there as a whole or
// not at all, which is why no journal tells of it.
const beforeUpgrade = ours + "/kubelet-before-upgrade"

// keepWorker copies the configuration of the kubelet before kubeadm writes it, by truncation:
// a power cut there leaves a kubelet that does not start, and so nothing that would end the
// pods for which the next try waits.
func (u Upgrader) keepWorker() error {
	kept := u.Root.Path(beforeUpgrade)
	part := kept + ".part"
	if err := u.keepWhole(part, kept); err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "keep a copy of the configuration of the kubelet in %s", beforeUpgrade)
	}
	return nil
}

func (u Upgrader) keepWhole(part, kept string) error {
	// The files are in order now: the step before has seen to that, whatever is kept.
	for _, old := range []string{part, kept} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := u.keepKubelet(part); err != nil {
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
	kept := u.Root.Path(beforeUpgrade)
	if _, err := os.Stat(kept); err != nil {
		return nil //nolint:nilerr // no upgrade came as far as kubeadm
	}
	return u.mendKubelet(kept)
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
