package step

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/internal/lifecycle/rights"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// jobInterval between looks at a Job.
const jobInterval = 5 * time.Second

// jobKind is the kind that runs a Job of the workload or the management cluster once, which must
// succeed.
//
// That it never runs twice does not hang on luck with crashes. Each line below is
// durable before the next begins:
//
//	the name of the Job         in the run's progress
//	the Job, suspended          it runs nothing yet: to create it twice would do no harm
//	the UID of the Job          in the run's progress; from here on a missing Job is an error
//	the Job, resumed
//	its result and its logs     in a Secret that the run owns
//	the Job is deleted
//	the outcome                 in the run's progress
type jobKind struct{}

var _ = register(jobKind{})

// Name implements Kind.
func (jobKind) Name() string { return "job" }

// Manual implements Kind.
func (jobKind) Manual() (done, workload string) {
	return "a Job has succeeded; it never runs twice, and its logs are kept", "yes, or `target: Management`"
}

// Is implements Kind.
func (jobKind) Is(s *lifecyclev1.Step) bool { return s.Job != nil }

// Facts implements Kind.
func (jobKind) Facts(s *lifecyclev1.Step) Facts {
	facts := Facts{Doing: "runs a Job", Approval: "", Limit: defaultLimit, Waits: false, FollowsCluster: false, Workload: "job.target", Lasting: nil}
	if s.Job.Target == lifecyclev1.TargetManagement {
		facts.Workload = ""
	}
	return facts
}

// Needs implements Kind: rights on the Job, and on the Secret with its log.
func (jobKind) Needs(namespace string, s *lifecyclev1.Step, at *field.Path) Needs {
	needs := Needs{Reads: nil, Engine: rights.Verbs(rights.Right{Namespace: namespace, Resource: "secrets"}, "get", "create", "update"), Author: nil}
	if s.Job.Target == lifecyclev1.TargetManagement {
		on := rights.Right{Namespace: namespace, Group: batchv1.GroupName, Resource: "jobs"}
		needs.Author = []AuthorRight{{at.Child("job", "target"), rights.Verbs(on, "create")[0]}}
		needs.Engine = append(needs.Engine, rights.Verbs(on, "get", "create", "patch", "delete")...)
		needs.Engine = append(needs.Engine,
			rights.Right{Namespace: namespace, Verb: "list", Resource: "pods"},
			rights.Right{Namespace: namespace, Verb: "get", Resource: "pods", Subresource: "log"})
	}
	return needs
}

// Validate implements Kind.
func (jobKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	j := s.Job
	at = at.Child("job")
	_, errs := parseJobSpec(j.Spec.Raw, at.Child("spec"))
	if j.Namespace == "" {
		return errs
	}
	if j.Target == lifecyclev1.TargetManagement {
		return append(errs, field.Forbidden(at.Child("namespace"), "in the management cluster a Job runs in the namespace of its policy"))
	}
	return append(errs, matches(j.Namespace, validation.IsDNS1123Label, at.Child("namespace"))...)
}

// jobTarget is the cluster that the Job runs in.
type jobTarget struct {
	client.Client
	config *rest.Config
}

func targetOf(ctx context.Context, in Input, where lifecyclev1.Target) (jobTarget, error) {
	if where == lifecyclev1.TargetManagement {
		return jobTarget{in.Env.Management, in.Env.Config}, nil
	}
	cluster, err := in.Env.Workload.For(ctx, client.ObjectKeyFromObject(in.Cluster))
	if err != nil {
		return jobTarget{}, err
	}
	return jobTarget{cluster.Client, cluster.Config}, nil
}

// Execute implements Kind.
func (jobKind) Execute(ctx context.Context, in Input) (Result, error) {
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		ref := jobReference(in)
		return Result{Done: true, Message: fmt.Sprintf("would run a Job in namespace %s of the %s cluster", ref.Namespace, ref.Target)}, nil
	}
	result, err := attemptJob(ctx, in)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) || !passing(err) || IsUnreached(err) {
		return result, err
	}
	// The Job may run on meanwhile: only the step's time limits how long that lasts.
	return Result{Message: err.Error(), After: jobInterval}, nil
}

func attemptJob(ctx context.Context, in Input) (Result, error) {
	if in.Progress.Job == nil {
		return announceJob(in), nil
	}
	recorded := recordedJob(in)
	result, err := recordedResult(ctx, in, recorded)
	if err != nil {
		return Result{}, err
	}
	where, err := targetOf(ctx, in, recorded.Target)
	if err != nil && result == nil {
		return Result{}, err
	}
	if result != nil {
		if err == nil {
			removeJob(ctx, where, recorded)
		}
		return result.answer(recorded)
	}
	if recorded.UID == "" {
		return createJob(ctx, in, where, recorded)
	}
	job, err := findJob(ctx, where, recorded)
	if err != nil {
		return Result{}, err
	}
	if job == nil {
		return Result{}, Terminal(
			fmt.Errorf("somebody deleted Job %s/%s before its result was known", recorded.Namespace, recorded.Name),
			"find out whether it did its work, then skip the step, or retry it to run the Job again")
	}
	return observeJob(ctx, in, where, job, recorded)
}

// jobReference returns the Job of the step.
func jobReference(in Input) lifecyclev1.JobReference {
	ref := lifecyclev1.JobReference{
		Target: in.Step.Job.Target, Namespace: in.Step.Job.Namespace, Name: Name(in.Run, in.Progress, ""),
	}
	switch {
	case ref.Target == lifecyclev1.TargetManagement:
		ref.Namespace = in.Run.Namespace
	case ref.Namespace == "":
		ref.Namespace = metav1.NamespaceDefault
	}
	if ref.Target == "" {
		ref.Target = lifecyclev1.TargetWorkload
	}
	return ref
}

// recordedJob returns the recorded Job where the step has it. What the record says of its
// place is for people: it is computed each time, so that no record can have the engine
// work in another namespace or cluster than the policy says.
func recordedJob(in Input) *lifecyclev1.JobReference {
	ref := jobReference(in)
	ref.UID = in.Progress.Job.UID
	return &ref
}

// announceJob has the name of the Job recorded before there is one.
func announceJob(in Input) Result {
	ref := jobReference(in)
	return Result{Job: &ref, Message: fmt.Sprintf("creates Job %s/%s", ref.Namespace, ref.Name)}
}

// createJob makes the Job, suspended, or finds the one that a cut-off attempt made, and
// has its UID recorded.
func createJob(ctx context.Context, in Input, where jobTarget, ref *lifecyclev1.JobReference) (Result, error) {
	job, err := jobManifest(in, *ref)
	if err != nil {
		return Result{}, err
	}
	err = where.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		err = where.Get(ctx, client.ObjectKeyFromObject(job), job)
		if err == nil && job.Annotations[startedAnnotation] != started(in) {
			return Result{}, Terminal(
				fmt.Errorf("there already is a Job %s/%s, which is not this step's", ref.Namespace, ref.Name),
				"delete it and retry the step")
		}
	}
	if meta.IsNoMatchError(err) {
		return Result{}, Terminal(fmt.Errorf("the %s cluster serves no Jobs (batch/v1): %w", strings.ToLower(string(ref.Target)), err),
			"have the Job run in a cluster that does, or skip the step")
	}
	if err != nil {
		return Result{}, fmt.Errorf("create Job %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	found := *ref
	found.UID = job.UID
	return Result{Job: &found, Message: fmt.Sprintf("created Job %s/%s", ref.Namespace, ref.Name)}, nil
}

// findJob returns the Job with the recorded UID; nil when it is gone.
func findJob(ctx context.Context, where jobTarget, ref *lifecyclev1.JobReference) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := where.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, job)
	if apierrors.IsNotFound(err) || (err == nil && job.UID != ref.UID) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Job %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return job, nil
}

// observeJob resumes the Job, waits for it, or records its result.
func observeJob(ctx context.Context, in Input, where jobTarget, job *batchv1.Job, ref *lifecyclev1.JobReference) (Result, error) {
	if job.Annotations[heldAnnotation] != "" {
		return resumeJob(ctx, where, job)
	}
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		finished := jobResult{jobUID: job.UID}
		switch c.Type {
		case batchv1.JobComplete:
			finished.outcome, finished.message = outcomeSucceeded, "succeeded"
		case batchv1.JobFailed:
			finished.outcome, finished.message = outcomeFailed, fmt.Sprintf("failed: %s: %s", c.Reason, c.Message)
		default:
			continue
		}
		if err := finishJob(ctx, in, where, job, &finished); err != nil {
			return Result{}, err
		}
		return finished.answer(ref)
	}
	message := fmt.Sprintf("Job %s/%s runs: %d active, %d failed pods", job.Namespace, job.Name, job.Status.Active, job.Status.Failed)
	if ptr.Deref(job.Spec.Suspend, false) {
		message = fmt.Sprintf("Job %s/%s is suspended", job.Namespace, job.Name)
	}
	if trouble := troubleOf(ctx, where, job); trouble != "" {
		message += "; " + trouble
	}
	return Result{Message: message, After: jobInterval}, nil
}

// resumeJob lets the Job run, now that its UID is recorded.
func resumeJob(ctx context.Context, where jobTarget, job *batchv1.Job) (Result, error) {
	patch := client.MergeFromWithOptions(job.DeepCopy(), client.MergeFromWithOptimisticLock{})
	delete(job.Annotations, heldAnnotation)
	job.Spec.Suspend = ptr.To(false)
	if err := where.Patch(ctx, job, patch); err != nil {
		return Result{}, fmt.Errorf("resume Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return Result{Message: fmt.Sprintf("Job %s/%s runs", job.Namespace, job.Name), After: jobInterval}, nil
}

// finishJob records the result and the logs, and removes the Job.
func finishJob(ctx context.Context, in Input, where jobTarget, job *batchv1.Job, r *jobResult) error {
	logs := collectLogs(ctx, where, job)
	if err := recordResult(ctx, in, job, r, logs); err != nil {
		if passing(err) {
			return err
		}
		// The Job itself is the record then, and ends by its time to live.
		r.message += fmt.Sprintf("; its logs could not be kept: %v", err)
		return nil
	}
	r.message += "; its logs are in Secret " + jobLogName(job.Name)
	removeJob(ctx, where, &lifecyclev1.JobReference{Namespace: job.Namespace, Name: job.Name, UID: job.UID})
	return nil
}

// removeJob deletes the Job with its pods. One that cannot be deleted now ends by its
// time to live: its result is recorded, so nothing depends on it.
func removeJob(ctx context.Context, where jobTarget, ref *lifecyclev1.JobReference) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	_ = where.Delete(ctx, job, client.Preconditions{UID: &ref.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// Stop implements Stopper: it keeps the logs and deletes the Job.
func (jobKind) Stop(ctx context.Context, in Input) error {
	if in.Progress.Job == nil {
		return nil
	}
	ref := recordedJob(in)
	where, err := targetOf(ctx, in, ref.Target)
	if err != nil {
		return err
	}
	job := &batchv1.Job{}
	if err := where.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if job.Annotations[startedAnnotation] != started(in) || (ref.UID != "" && ref.UID != job.UID) {
		return nil
	}
	stopped := &jobResult{jobUID: job.UID, outcome: outcomeStopped, message: "stopped"}
	recorded := recordResult(ctx, in, job, stopped, collectLogs(ctx, where, job))
	deleted := where.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return errors.Join(recorded, client.IgnoreNotFound(deleted))
}

// passing says whether err tells nothing about the Job: a cluster was not reached, what
// the engine may not do yet, or an API server that was busy or lost a race.
func passing(err error) bool {
	if IsTerminal(err) {
		return false
	}
	if IsUnreached(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}
