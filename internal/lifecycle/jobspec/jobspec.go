package jobspec

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"
)

// Parse returns the spec of a batch/v1 Job. Unknown and duplicate fields are errors,
// and so is what a step cannot have; all else is left to the API server that the Job
// is created in. path is where data stands.
func Parse(data []byte, path *field.Path) (*batchv1.JobSpec, field.ErrorList) {
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
	return spec, append(errs, check(spec, path)...)
}

func check(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
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
