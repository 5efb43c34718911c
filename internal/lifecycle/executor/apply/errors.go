package apply

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isConflict says whether another field manager owns a field.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// explain tells which object of which document the API server refused, and why.
func explain(o object, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s (%s): the workload cluster has no kind %s of %s; is its CustomResourceDefinition missing? %w",
			o.name(), o.source, o.GetKind(), o.GetAPIVersion(), err)
	}
	if isConflict(err) {
		return fmt.Errorf("%s (%s): %s", o.name(), o.source, conflicts(err))
	}
	if o.source.secret() {
		// The API server quotes values that it refuses.
		return fmt.Errorf("%s (%s): %s", o.name(), o.source, fieldsOf(err))
	}
	return fmt.Errorf("%s (%s): %w", o.name(), o.source, err)
}

// causes returns the details of an answer of the API server.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

// conflicts tells the fields and their managers.
func conflicts(err error) string {
	var fields []string
	for _, cause := range causes(err) {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, fmt.Sprintf("field %s: %s", cause.Field, cause.Message))
		}
	}
	return strings.Join(fields, ", ")
}

// fieldsOf tells the reason and the fields of a refusal, without its text.
func fieldsOf(err error) string {
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "failed"
	}
	var fields []string
	for _, cause := range causes(err) {
		fields = append(fields, cause.Field)
	}
	if len(fields) > 0 {
		reason += " at " + strings.Join(fields, ", ")
	}
	return reason + " (the text may quote the Secret and is left out)"
}
