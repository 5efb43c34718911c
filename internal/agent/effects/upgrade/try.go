package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/startup"
)

const (
	// lastLines is how much of a log is looked through for the reason of an end.
	lastLines = "200"
	// maxError is how much of an error a message repeats, in bytes.
	maxError = 400
)

// tryKubelet has the kubelet of the version read the flags and the configuration with which it
// will be started, and refuses the upgrade when that kubelet does. Nothing is changed.
func (u Upgrader) tryKubelet(ctx context.Context, version string) error {
	flags, err := u.kubeletFlags(ctx)
	if err != nil {
		return err
	}
	program, err := u.Versions.Program(ctx, version, "kubelet")
	if err != nil {
		return err
	}
	dir := u.Root.Path(filepath.Join(ours, "try"))
	defer func() { _ = os.RemoveAll(dir) }()
	if err := u.renderKubelet(ctx, version, dir); err != nil {
		return err
	}
	if slices.ContainsFunc(flags, func(flag string) bool { return flag == "--config" || strings.HasPrefix(flag, "--config=") }) {
		// The last one counts.
		flags = append(flags, "--config="+filepath.Join(dir, kubeletConfig))
	}
	out, err := u.output(ctx, slices.Concat([]string{"env", startup.Watchdog, program}, flags)...)
	if err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "try the kubelet of %s", version)
	}
	said := startup.Kubelet(out)
	if said.Why == "" {
		return nil
	}
	return wouldNotStart("kubelet", version, said.Why, "kubeletExtraArgs and files of the bootstrap configuration and ConfigMap kube-system/kubelet-config")
}

func wouldNotStart(program, version, why, from string) error {
	return &operation.Error{Reason: operation.ReasonConfigurationRefused, Retry: operation.RetryNever, Message: fmt.Sprintf(
		"the %s of %s would not start: %s; nothing was changed, and the node serves on. Its configuration comes from %s", program, version, operation.Truncate(why, maxError), from)}
}

// output runs a program that is to fail, and returns all it says.
func (u Upgrader) output(ctx context.Context, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startup.Timeout)
	defer cancel()
	out, err := u.Runner.Run(ctx, "sh", append([]string{"-c", `"$@" 2>&1; true`, "sh"}, line...)...)
	return string(out), err
}

// tryStaticPod runs the program of a static pod with its flags in a container of its image that has
// no network and only reads the files of the pod. An image that cannot be run tells nothing.
func (c *onControlPlane) tryStaticPod(ctx context.Context, pod *corev1.Pod) error {
	container := pod.Spec.Containers[0]
	line := []string{"ctr", "--address", c.CRISocket, "--namespace", "k8s.io", "run", "--rm"}
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			// Etcd must not find its data. What the others would write is there to be read; a directory that the
			// kubelet makes is not there yet.
			if volume.Name == mount.Name && volume.HostPath != nil && (mount.ReadOnly || pod.Name != etcd && c.exists(volume.HostPath.Path)) {
				line = append(line, "--mount", fmt.Sprintf("type=bind,src=%s,dst=%s,options=rbind:ro", volume.HostPath.Path, mount.MountPath))
			}
		}
	}
	command := slices.Concat(container.Command, container.Args)
	tries := [][]string{{startup.Flag(pod.Name)}}
	if startup.ReadsLater(command) {
		tries = append(tries, startup.FilesFlags())
	}
	for _, last := range tries {
		out, err := c.output(ctx, slices.Concat(line, []string{container.Image, "slipway-try-" + pod.Name}, command, last)...)
		if err != nil {
			return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "try the %s of %s", pod.Name, c.version)
		}
		switch said := startup.StaticPod(out); {
		case !said.Tried:
			c.Log.Warn("a static pod cannot be tried before the upgrade", "pod", pod.Name, "err", operation.Truncate(said.Why, maxError))
			return nil
		case said.Why != "":
			return wouldNotStart(pod.Name, c.version, said.Why, "the clusterConfiguration of the control-plane object, ConfigMap kube-system/kubeadm-config in the cluster, and files of the host that it names")
		}
	}
	return nil
}

// exists says whether the host has a path.
func (u Upgrader) exists(path string) bool {
	_, err := os.Stat(u.Root.Path(path))
	return err == nil
}

// renderKubelet has kubeadm of the version write into dir what it would have the kubelet read.
func (u Upgrader) renderKubelet(ctx context.Context, version, dir string) error {
	program, err := u.Versions.Program(ctx, version, "kubeadm")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// What kubeadm reads there stands in the directory of the kubelet otherwise.
	if err := u.keepKubelet(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kubeadmTimeout)
	defer cancel()
	if _, err := u.Runner.Run(ctx, "env", "KUBEADM_UPGRADE_DRYRUN_DIR="+dir, program, "upgrade", "node", "phase", "kubelet-config", "--dry-run"); err != nil {
		return operation.Failf(operation.ReasonKubeadmFailed, operation.RetryAfterReset, err,
			"have kubeadm of %s tell the configuration of its kubelet; its output is in %s on the host", version, bootstrap.LogFile)
	}
	return nil
}

// kubeletFlags are those of the kubelet that runs, which its unit gives to the next one as well.
func (u Upgrader) kubeletFlags(ctx context.Context) ([]string, error) {
	pid := u.kubeletProcess(ctx)
	if pid == 0 {
		return nil, &operation.Error{Reason: operation.ReasonKubeletInactive, Retry: operation.RetryLater,
			Message: "kubelet.service does not run, so that an upgrade would end no pod; see its log on the host"}
	}
	data, err := u.Root.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil, &operation.Error{Reason: operation.ReasonKubeletInactive, Retry: operation.RetryLater, Err: err,
			Message: "kubelet.service has just ended; see its log on the host"}
	}
	return strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00")[1:], nil
}

// kubeletProcess is the process of the unit; 0 when none runs.
func (u Upgrader) kubeletProcess(ctx context.Context) int {
	out, err := u.Runner.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", "kubelet")
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return pid
}

// lastError is why a component ended, by the last lines of its log.
func lastError(log string) string { return operation.Truncate(startup.LastError(log), maxError) }
