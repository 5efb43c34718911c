package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// jobLogType of the Secrets with the result and the logs of a Job.
const jobLogType corev1.SecretType = "lifecycle.slipway.dev/job-log"

const (
	uidAnnotation     = "lifecycle.slipway.dev/job-uid"
	outcomeAnnotation = "lifecycle.slipway.dev/job-outcome"
	messageAnnotation = "lifecycle.slipway.dev/job-message"
)

const (
	outcomeSucceeded = "Succeeded"
	outcomeFailed    = "Failed"
	outcomeStopped   = "Stopped"
)

// recordedResult is how a Job ended. It outlives the Job.
type jobResult struct {
	jobUID  types.UID
	outcome string
	message string
}

// answer is what the step's attempt returns for the result. A failed Job is not run
// again: how often its pods may fail is its own backoffLimit.
func (r *jobResult) answer(ref *lifecyclev1.JobReference) (Result, error) {
	message := fmt.Sprintf("Job %s/%s %s", ref.Namespace, ref.Name, r.message)
	if r.outcome != outcomeSucceeded {
		return Result{}, Terminal(errors.New(message), "")
	}
	return Result{Done: true, Message: message}, nil
}

func jobLogName(job string) string { return job + "-log" }

// recordedResult returns the recorded result of the Job; nil when there is none.
func recordedResult(ctx context.Context, in Input, ref *lifecyclev1.JobReference) (*jobResult, error) {
	if ref.UID == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := in.Env.Management.Get(ctx, client.ObjectKey{Namespace: in.Run.Namespace, Name: jobLogName(ref.Name)}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the result of Job %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	r := &jobResult{
		jobUID:  types.UID(secret.Annotations[uidAnnotation]),
		outcome: secret.Annotations[outcomeAnnotation],
		message: secret.Annotations[messageAnnotation] + "; its logs are in Secret " + secret.Name,
	}
	if secret.Type != jobLogType || r.jobUID != ref.UID || (r.outcome != outcomeSucceeded && r.outcome != outcomeFailed) {
		return nil, nil
	}
	return r, nil
}

// recordResult writes the result and the logs into a Secret that the run owns.
func recordResult(ctx context.Context, in Input, job *batchv1.Job, r *jobResult, logs map[string][]byte) error {
	labels := Labels(in.Run, in.Step.Name)
	// The managers of Cluster API keep every Secret with this label in memory.
	delete(labels, clusterv1.ClusterNameLabel)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Run.Namespace, Name: jobLogName(job.Name),
			Labels: labels,
			Annotations: map[string]string{
				uidAnnotation:     string(r.jobUID),
				outcomeAnnotation: r.outcome,
				messageAnnotation: r.message,
			},
			OwnerReferences: []metav1.OwnerReference{ownedBy(in.Run)},
		},
		Type: jobLogType,
		Data: logs,
	}
	return writeSecret(ctx, in, secret, Terminal(fmt.Errorf("there already is a Secret %s of another type", secret.Name), ""))
}

// Bounds of the logs that are kept; a Secret holds 1 MiB.
const (
	maxPods    = 8
	maxLog     = 128 << 10
	maxLogs    = 768 << 10
	maxLines   = int64(4000)
	logsWithin = 15 * time.Second
)

// podsOf returns the pods of a Job, the newest first.
func podsOf(ctx context.Context, where jobTarget, job *batchv1.Job) ([]corev1.Pod, error) {
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

// collectLogs returns the ends of the logs of the Job's newest pods. A log that cannot be
// read is replaced by the reason: it does not change how the Job ended.
func collectLogs(ctx context.Context, where jobTarget, job *batchv1.Job) map[string][]byte {
	ctx, cancel := context.WithTimeout(ctx, logsWithin)
	defer cancel()
	logs := map[string][]byte{}
	api, err := corev1client.NewForConfig(where.config)
	if err != nil {
		return map[string][]byte{"error": []byte(err.Error())}
	}
	found, err := podsOf(ctx, where, job)
	if err != nil {
		return map[string][]byte{"error": fmt.Appendf(nil, "the pods could not be listed: %v\n", err)}
	}
	left := maxLogs
	for _, pod := range found[:min(len(found), maxPods)] {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			log, err := tailLog(ctx, api, &pod, container.Name, min(maxLog, left))
			if err != nil {
				log = fmt.Appendf(log, "the log could not be read: %v\n", err)
			}
			if len(log) > left {
				return logs
			}
			left -= len(log)
			logs[logKey(pod.Name, container.Name)] = log
		}
	}
	return logs
}

// logKey is valid in the data of a Secret.
func logKey(pod, container string) string {
	const longest = 253
	name := pod + "." + container + ".log"
	return name[max(0, len(name)-longest):]
}

// tailLog returns the last bytes of a container's log, at most limit.
func tailLog(ctx context.Context, api corev1client.CoreV1Interface, pod *corev1.Pod, container string, limit int) ([]byte, error) {
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
func troubleOf(ctx context.Context, where jobTarget, job *batchv1.Job) string {
	found, err := podsOf(ctx, where, job)
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
