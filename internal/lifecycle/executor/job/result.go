package job

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// secretType of the Secrets with the result and the logs of a Job.
const secretType corev1.SecretType = "lifecycle.slipway.dev/job-log"

const (
	uidAnnotation      = "lifecycle.slipway.dev/job-uid"
	outcomeAnnotation  = "lifecycle.slipway.dev/job-outcome"
	messageAnnotation  = "lifecycle.slipway.dev/job-message"
	failuresAnnotation = "lifecycle.slipway.dev/failures"
)

const (
	outcomeSucceeded = "Succeeded"
	outcomeFailed    = "Failed"
	outcomeStopped   = "Stopped"
)

// result is how a Job ended. It outlives the Job.
type result struct {
	jobUID  types.UID
	outcome string
	message string
	// failures of the step when the Job ended: more of them mean that this one is
	// counted.
	failures int32
}

// failedError is the failure of a Job.
type failedError struct {
	job     string
	message string
}

// Error returns which Job failed and why.
func (e *failedError) Error() string { return fmt.Sprintf("Job %s %s", e.job, e.message) }

// answer is what the step's attempt returns for the result.
func (r *result) answer(ref *lifecyclev1.JobReference) (step.Result, error) {
	job := ref.Namespace + "/" + ref.Name
	if r.outcome != outcomeSucceeded {
		return step.Result{}, &failedError{job: job, message: r.message}
	}
	return step.Result{Done: true, Message: fmt.Sprintf("Job %s %s", job, r.message)}, nil
}

func recordName(job string) string { return job + "-log" }

// result returns the recorded result of the Job; nil when there is none.
func (e *executor) result(ctx context.Context, in step.Input, ref *lifecyclev1.JobReference) (*result, error) {
	if ref.UID == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := e.management.Get(ctx, client.ObjectKey{Namespace: in.Run.Namespace, Name: recordName(ref.Name)}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the result of Job %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	r := &result{
		jobUID:  types.UID(secret.Annotations[uidAnnotation]),
		outcome: secret.Annotations[outcomeAnnotation],
		message: secret.Annotations[messageAnnotation] + "; its logs are in Secret " + secret.Name,
	}
	failures, err := strconv.ParseInt(secret.Annotations[failuresAnnotation], 10, 32)
	if err != nil || secret.Type != secretType || r.jobUID != ref.UID || (r.outcome != outcomeSucceeded && r.outcome != outcomeFailed) {
		return nil, nil //nolint:nilerr // not the record of this Job
	}
	r.failures = int32(failures)
	return r, nil
}

// record writes the result and the logs into a Secret that the run owns.
func (e *executor) record(ctx context.Context, in step.Input, job *batchv1.Job, r *result, logs map[string][]byte) error {
	labels := step.Labels(in.Run, in.Step.Name)
	// The managers of Cluster API keep every Secret with this label in memory.
	delete(labels, clusterv1.ClusterNameLabel)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Run.Namespace, Name: recordName(job.Name),
			Labels: labels,
			Annotations: map[string]string{
				uidAnnotation:      string(r.jobUID),
				outcomeAnnotation:  r.outcome,
				messageAnnotation:  r.message,
				failuresAnnotation: strconv.Itoa(int(r.failures)),
			},
			OwnerReferences: []metav1.OwnerReference{ownedBy(in.Run)},
		},
		Type: secretType,
		Data: logs,
	}
	err := e.management.Create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &corev1.Secret{}
	if err := e.management.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return err
	}
	if existing.Type != secretType {
		return step.Terminal(fmt.Errorf("there already is a Secret %s of another type", secret.Name), "")
	}
	secret.ResourceVersion = existing.ResourceVersion
	return e.management.Update(ctx, secret)
}
