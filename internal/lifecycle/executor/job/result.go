package job

import (
	"context"
	"errors"
	"fmt"

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
	uidAnnotation     = "lifecycle.slipway.dev/job-uid"
	outcomeAnnotation = "lifecycle.slipway.dev/job-outcome"
	messageAnnotation = "lifecycle.slipway.dev/job-message"
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
}

// answer is what the step's attempt returns for the result. A failed Job is not run
// again: how often its pods may fail is its own backoffLimit.
func (r *result) answer(ref *lifecyclev1.JobReference) (step.Result, error) {
	message := fmt.Sprintf("Job %s/%s %s", ref.Namespace, ref.Name, r.message)
	if r.outcome != outcomeSucceeded {
		return step.Result{}, step.Terminal(errors.New(message), "")
	}
	return step.Result{Done: true, Message: message}, nil
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
	if secret.Type != secretType || r.jobUID != ref.UID || (r.outcome != outcomeSucceeded && r.outcome != outcomeFailed) {
		return nil, nil
	}
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
				uidAnnotation:     string(r.jobUID),
				outcomeAnnotation: r.outcome,
				messageAnnotation: r.message,
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
