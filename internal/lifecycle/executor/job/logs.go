package job

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of the logs that are kept; a Secret holds 1 MiB.
const (
	maxPods       = 8
	maxLog        = 128 << 10
	maxLogs       = 768 << 10
	maxLines      = int64(4000)
	collectWithin = 15 * time.Second
)

// pods returns the pods of a Job, the newest first.
func pods(ctx context.Context, where target, job *batchv1.Job) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := where.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}, client.Limit(100))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, err
}

// collect returns the ends of the logs of the Job's newest pods. A log that cannot be
// read is replaced by the reason: it does not change how the Job ended.
func collect(ctx context.Context, where target, job *batchv1.Job) map[string][]byte {
	ctx, cancel := context.WithTimeout(ctx, collectWithin)
	defer cancel()
	logs := map[string][]byte{}
	api, err := corev1client.NewForConfig(where.config)
	if err != nil {
		return map[string][]byte{"error": []byte(err.Error())}
	}
	found, err := pods(ctx, where, job)
	if err != nil {
		return map[string][]byte{"error": fmt.Appendf(nil, "the pods could not be listed: %v\n", err)}
	}
	left := maxLogs
	for _, pod := range found[:min(len(found), maxPods)] {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			log, err := tail(ctx, api, &pod, container.Name, min(maxLog, left))
			if err != nil {
				log = fmt.Appendf(log, "the log could not be read: %v\n", err)
			}
			if len(log) > left {
				return logs
			}
			left -= len(log)
			logs[key(pod.Name, container.Name)] = log
		}
	}
	return logs
}

// key is valid in the data of a Secret.
func key(pod, container string) string {
	const longest = 253
	name := pod + "." + container + ".log"
	return name[max(0, len(name)-longest):]
}

// tail returns the last bytes of a container's log, at most limit.
func tail(ctx context.Context, api corev1client.CoreV1Interface, pod *corev1.Pod, container string, limit int) ([]byte, error) {
	stream, err := api.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, TailLines: ptr.To(maxLines)}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	var kept []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := stream.Read(buffer)
		kept = append(kept, buffer[:n]...)
		kept = kept[max(0, len(kept)-limit):]
		if err == io.EOF {
			return slices.Clone(kept), nil
		}
		if err != nil {
			return slices.Clone(kept), err
		}
	}
}

// troubleOf tells why the Job's pods do not run, if Kubernetes says so.
func troubleOf(ctx context.Context, where target, job *batchv1.Job) string {
	found, err := pods(ctx, where, job)
	if err != nil {
		return ""
	}
	for _, pod := range found {
		if pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return fmt.Sprintf("pod %s: %s: %s", pod.Name, c.Reason, c.Message)
			}
		}
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.State.Waiting != nil && s.State.Waiting.Message != "" {
				return fmt.Sprintf("pod %s: %s: %s", pod.Name, s.State.Waiting.Reason, s.State.Waiting.Message)
			}
		}
	}
	return ""
}
