package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

const (
	// startedAnnotation tells the Jobs of a step's attempt from those that had the
	// same name before: its value is the attempt's start, which is in the run's progress.
	startedAnnotation = "lifecycle.slipway.dev/started"
	// heldAnnotation is on a Job that is suspended until its UID is recorded.
	heldAnnotation = "lifecycle.slipway.dev/held"
)

const (
	// jobGrace is how long after the step's timeout a Job that nobody stopped ends by
	// itself: the workload cluster may be out of reach just then.
	jobGrace = time.Minute
	// jobLeftover is how long a finished Job stays that nobody removes.
	jobLeftover = 7 * 24 * time.Hour
)

// jobManifest returns the Job as it is created: suspended.
func jobManifest(in Input, ref lifecyclev1.JobReference) (*batchv1.Job, error) {
	spec, errs := parseJobSpec(in.Step.Job.Spec.Raw, field.NewPath("job", "spec"))
	if len(errs) > 0 {
		return nil, Terminal(errs.ToAggregate(), "correct the policy, or skip the step")
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name,
			Labels:      Labels(in.Run, in.Step.Name),
			Annotations: map[string]string{startedAnnotation: started(in)},
		},
		Spec: *spec,
	}
	if ref.Target == lifecyclev1.TargetManagement {
		job.OwnerReferences = []metav1.OwnerReference{ownedBy(in.Run)}
	}
	if !ptr.Deref(spec.Suspend, false) {
		job.Annotations[heldAnnotation] = "true"
		job.Spec.Suspend = ptr.To(true)
	}
	deadline := int64(max(remainingTime(in)+jobGrace, jobGrace) / time.Second)
	job.Spec.ActiveDeadlineSeconds = ptr.To(min(deadline, ptr.Deref(spec.ActiveDeadlineSeconds, deadline)))
	job.Spec.TTLSecondsAfterFinished = ptr.To(int32(jobLeftover / time.Second))
	if job.Spec.Template.Labels == nil {
		job.Spec.Template.Labels = map[string]string{}
	}
	for key, value := range job.Labels {
		job.Spec.Template.Labels[key] = value
	}
	addEnvironment(&job.Spec.Template.Spec, jobEnvironment(in.Run))
	return job, nil
}

// started identifies an attempt of a step.
func started(in Input) string { return in.Progress.StartTime.UTC().Format(time.RFC3339) }

// remainingTime is the step's remaining time.
func remainingTime(in Input) time.Duration {
	return Timeout(in.Step) - in.Now.Sub(in.Progress.StartTime.Time)
}

func ownedBy(run *lifecyclev1.LifecycleRun) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: lifecyclev1.GroupVersion.String(), Kind: "LifecycleRun", Name: run.Name, UID: run.UID,
	}
}

// jobEnvironment tells the containers what they run for.
func jobEnvironment(run *lifecyclev1.LifecycleRun) []corev1.EnvVar {
	var variables []corev1.EnvVar
	for _, v := range []corev1.EnvVar{
		{Name: "SLIPWAY_CLUSTER", Value: run.Spec.ClusterName},
		{Name: "SLIPWAY_NAMESPACE", Value: run.Namespace},
		{Name: "SLIPWAY_HOOK", Value: string(run.Spec.Hook)},
		{Name: "SLIPWAY_FROM_KUBERNETES_VERSION", Value: run.Spec.Request.FromKubernetesVersion},
		{Name: "SLIPWAY_TO_KUBERNETES_VERSION", Value: run.Spec.Request.ToKubernetesVersion},
		{Name: "SLIPWAY_KUBERNETES_VERSION", Value: run.Spec.Request.KubernetesVersion},
	} {
		if v.Value != "" {
			variables = append(variables, v)
		}
	}
	return variables
}

// addEnvironment puts variables before those of the containers, which can refer to
// them; it replaces those of the same name.
func addEnvironment(pod *corev1.PodSpec, variables []corev1.EnvVar) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			own := slices.DeleteFunc(slices.Clone(containers[i].Env), func(e corev1.EnvVar) bool {
				return slices.ContainsFunc(variables, func(v corev1.EnvVar) bool { return v.Name == e.Name })
			})
			containers[i].Env = append(slices.Clone(variables), own...)
		}
	}
}

// parseJobSpec returns the spec of a batch/v1 Job. Unknown and duplicate fields are errors,
// and so is what a step cannot have; all else is left to the API server that the Job
// is created in. path is where data stands.
func parseJobSpec(data []byte, path *field.Path) (*batchv1.JobSpec, field.ErrorList) {
	if len(data) == 0 {
		return nil, field.ErrorList{field.Required(path, "the spec of a batch/v1 Job")}
	}
	spec := &batchv1.JobSpec{}
	strict, err := json.UnmarshalStrict(data, spec)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "is no spec of a batch/v1 Job: "+err.Error())}
	}
	var errs field.ErrorList
	for _, err := range strict {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return spec, append(errs, checkJobSpec(spec, path)...)
}

func checkJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.TTLSecondsAfterFinished != nil {
		errs = append(errs, field.Forbidden(path.Child("ttlSecondsAfterFinished"), "the Job is removed once its result is recorded"))
	}
	if spec.Selector != nil || ptr.Deref(spec.ManualSelector, false) {
		errs = append(errs, field.Forbidden(path.Child("selector"), "Kubernetes makes one for each Job"))
	}
	pod := path.Child("template", "spec")
	switch spec.Template.Spec.RestartPolicy {
	case corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	case "":
		errs = append(errs, field.Required(pod.Child("restartPolicy"), "Never or OnFailure"))
	default:
		errs = append(errs, field.NotSupported(pod.Child("restartPolicy"), spec.Template.Spec.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}))
	}
	if len(spec.Template.Spec.Containers) == 0 {
		errs = append(errs, field.Required(pod.Child("containers"), "at least one container"))
	}
	for i, container := range spec.Template.Spec.Containers {
		if container.Image == "" {
			errs = append(errs, field.Required(pod.Child("containers").Index(i).Child("image"), ""))
		}
	}
	return errs
}

// Try implements Trier: the API server validates the Job by a dry run.
func (jobKind) Try(ctx context.Context, c client.Client, namespace string, s *lifecyclev1.Step, at *field.Path) (field.ErrorList, error) {
	at = at.Child("job")
	spec, faults := parseJobSpec(s.Job.Spec.Raw, at.Child("spec"))
	if len(faults) > 0 {
		return faults, nil
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "try-"}, Spec: *spec}
	err := c.Create(ctx, job, client.DryRunAll)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("validate the Job of step %s: %w", s.Name, err)
	}
	if unservedJobs(err) && s.Job.Target == lifecyclev1.TargetManagement {
		return field.ErrorList{field.Invalid(at.Child("target"), s.Job.Target,
			"the management cluster serves no Jobs (batch/v1), as a plane does not: use the target Workload, or a webhook step")}, nil
	}
	return refusals(err, at), nil
}

// unservedJobs says whether the API server does not know the kind at all. It answers so without a
// name of an object.
func unservedJobs(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		return status.Status().Details == nil || status.Status().Details.Name == ""
	}
	return meta.IsNoMatchError(err)
}

// refusals are the fields of a Job that the API server refuses. Policies of the
// management cluster that refuse a Job as a whole may not be those of the workload
// cluster.
func refusals(err error, at *field.Path) field.ErrorList {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var errs field.ErrorList
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, "spec.") {
			errs = append(errs, field.Invalid(at.Child(cause.Field), field.OmitValueType{}, cause.Message))
		}
	}
	return errs
}
