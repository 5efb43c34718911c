package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/text"
)

const (
	// tryWatchdog has a kubelet end before it does anything. It validates its flags and its
	// configuration, then finds the watchdog of systemd set to less than a second and ends with
	// an error that has tryPassed (pkg/kubelet/watchdog of Kubernetes 1.32 and later, which
	// cmd/kubelet calls first of all when it begins to run).
	tryWatchdog = "WATCHDOG_USEC=1"
	tryPassed   = "configure watchdog timeout too small"
	tryTimeout  = time.Minute
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
	out, err := u.output(ctx, slices.Concat([]string{"env", tryWatchdog, program}, flags)...)
	switch {
	case err != nil:
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "try the kubelet of %s", version)
	case strings.Contains(out, tryPassed):
		return nil
	}
	return wouldNotStart("kubelet", version, lastError(out), "kubeletExtraArgs and files of the bootstrap configuration and ConfigMap kube-system/kubelet-config")
}

func wouldNotStart(program, version, why, from string) error {
	return &operation.Error{Reason: operation.ReasonConfigurationRefused, Retry: operation.RetryNever, Message: fmt.Sprintf(
		"the %s of %s would not start: %s; nothing was changed, and the node serves on. Its configuration comes from %s", program, version, why, from)}
}

// output runs a program that is to fail, and returns all it says.
func (u Upgrader) output(ctx context.Context, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	out, err := u.Runner.Run(ctx, "sh", append([]string{"-c", `"$@" 2>&1; true`, "sh"}, line...)...)
	return string(out), err
}

// What has a static pod end before it does anything: a value that its program refuses when it
// validates its flags, after it has parsed them all.
const (
	tryPort      = "--secure-port=-1"
	tryHeartbeat = "--heartbeat-interval=0"
)

// portRefused is what the programs of Kubernetes say of tryPort, also among other errors.
var portRefused = regexp.MustCompile(`--secure-port -1 must be between \d and \d+, inclusive[^,\]]*`)

// tryStaticPod runs the program of a static pod with its flags in a container of its image that has
// no network and only reads the files of the pod. An image that cannot be run tells nothing.
func (c *onControlPlane) tryStaticPod(ctx context.Context, pod *corev1.Pod) error {
	container := pod.Spec.Containers[0]
	line := []string{"ctr", "--address", c.CRISocket, "--namespace", "k8s.io", "run", "--rm"}
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			// Etcd must not find its data.
			if volume.Name == mount.Name && volume.HostPath != nil && mount.ReadOnly {
				line = append(line, "--mount", fmt.Sprintf("type=bind,src=%s,dst=%s,options=rbind:ro", volume.HostPath.Path, mount.MountPath))
			}
		}
	}
	flag := tryPort
	if pod.Name == etcd {
		flag = tryHeartbeat
	}
	out, err := c.output(ctx, slices.Concat(line, []string{container.Image, "slipway-try-" + pod.Name}, container.Command, container.Args, []string{flag})...)
	if err != nil {
		return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "try the %s of %s", pod.Name, c.version)
	}
	switch why, tried := refusal(out); {
	case !tried:
		c.Log.Warn("a static pod cannot be tried before the upgrade", "pod", pod.Name, "err", why)
	case why != "":
		return wouldNotStart(pod.Name, c.version, why, "the clusterConfiguration of the control-plane object, ConfigMap kube-system/kubeadm-config in the cluster")
	}
	return nil
}

// refusal is why the program of a static pod would not start, besides the flag that it was given to
// fail; tried says that it came as far as to say so.
func refusal(out string) (why string, tried bool) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if strings.HasPrefix(lines[len(lines)-1], "ctr: ") {
		return lastError(out), false
	}
	for _, line := range lines {
		switch {
		case strings.Contains(line, "heartbeat-interval must be"):
			return "", true
		case strings.HasPrefix(line, "flag provided but not defined: "), strings.HasPrefix(line, "invalid value "):
			// The usage follows.
			return lastError(line), true
		}
	}
	said := lastError(out)
	if portRefused.MatchString(said) {
		return strings.Trim(portRefused.ReplaceAllString(said, ""), "[], "), true
	}
	return said, true
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

// errorText is how a component's last line has its error, as text.
var errorText = regexp.MustCompile(`\berr(?:or)?=("(?:[^"\\]|\\.)*")`)

// lastError finds in the last lines of a component's log why it ended, and returns that as one
// printable line.
func lastError(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "Error: ")
	for _, each := range slices.Backward(lines) {
		if strings.Contains(each, "command failed") || strings.HasPrefix(each, "panic: ") {
			line = strings.TrimSpace(each)
			break
		}
	}
	var entry struct {
		Err string `json:"err"`
	}
	if quoted := errorText.FindStringSubmatch(line); quoted != nil {
		if unquoted, err := strconv.Unquote(quoted[1]); err == nil {
			line = unquoted
		}
	} else if json.Unmarshal([]byte(line), &entry) == nil && entry.Err != "" {
		line = entry.Err
	}
	if line == "" {
		return "it did not say why"
	}
	return operation.Truncate(text.Printable(line), maxError)
}
