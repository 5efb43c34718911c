package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

// scope records which phases ran.
type scope struct{ ran []string }

var errBroken = errors.New("broken")

func phase(name string, proceed bool, err error) reconciler.Phase[*scope] {
	return func(_ context.Context, s *scope) (bool, error) {
		s.ran = append(s.ran, name)
		return proceed, err
	}
}

func TestRun(t *testing.T) {
	cases := map[string]struct {
		phases []reconciler.Phase[*scope]
		ran    []string
		err    error
	}{
		"none": {},
		"all, in their order": {
			phases: []reconciler.Phase[*scope]{phase("a", true, nil), phase("b", true, nil)}, ran: []string{"a", "b"},
		},
		"up to one that holds back the others": {
			phases: []reconciler.Phase[*scope]{phase("a", true, nil), phase("b", false, nil), phase("c", true, nil)}, ran: []string{"a", "b"},
		},
		"up to one that fails, whatever it says of the others": {
			phases: []reconciler.Phase[*scope]{phase("a", true, errBroken), phase("b", true, nil)}, ran: []string{"a"}, err: errBroken,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &scope{}
			if err := reconciler.Run(t.Context(), s, c.phases); !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if !slices.Equal(s.ran, c.ran) {
				t.Errorf("ran %v, want %v", s.ran, c.ran)
			}
		})
	}
}

func TestAlways(t *testing.T) {
	step := func(name string, err error) func(context.Context, *scope) error {
		return func(_ context.Context, s *scope) error {
			s.ran = append(s.ran, name)
			return err
		}
	}
	s := &scope{}
	err := reconciler.Run(t.Context(), s, reconciler.Always(step("a", nil), step("b", errBroken), step("c", nil)))
	if want := []string{"a", "b"}; !errors.Is(err, errBroken) || !slices.Equal(s.ran, want) {
		t.Errorf("ran %v with %v, want %v with %v", s.ran, err, want, errBroken)
	}
}

// TestReplan holds that what is done comes of a plan over live reads, which take place only if the
// cache shows that there is something to do.
func TestReplan(t *testing.T) {
	for name, c := range map[string]struct {
		cached, live  int
		unread, fails error
		want, plans   int
	}{
		"nothing to do":       {cached: 0, live: 3, want: 0, plans: 1},
		"less than it seemed": {cached: 3, live: 1, want: 1, plans: 2},
		"done already":        {cached: 3, live: 0, want: 0, plans: 2},
		"not read":            {cached: 3, live: 1, unread: errBroken, want: 3, plans: 1},
		"no plan":             {cached: 3, live: 1, fails: errBroken, want: 3, plans: 1},
	} {
		seen, plans := c.cached, 0
		got, err := reconciler.Replan(
			func() (int, error) { plans++; return seen, c.fails },
			func(steps int) bool { return steps > 0 },
			func() error { seen = c.live; return c.unread },
		)
		if got != c.want || plans != c.plans || (err == nil) != (c.unread == nil && c.fails == nil) {
			t.Errorf("%s: %d steps of %d plans, %v", name, got, plans, err)
		}
	}
}

// TestEnding holds that a conflict of the last write is retried soon, and that there is no
// result beside an error.
func TestEnding(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "hosts"}, "h1", errBroken)
	other := errors.New("another one")
	for name, c := range map[string]struct {
		failed, unwritten error
		want              []error
		after             time.Duration
	}{
		"done":                              {after: time.Minute},
		"a conflict":                        {unwritten: fmt.Errorf("take the finalizer off: %w", conflict), after: reconciler.ConflictRetry},
		"a conflict of the patch helper":    {unwritten: kerrors.NewAggregate([]error{conflict}), after: reconciler.ConflictRetry},
		"a conflict after another error":    {failed: errBroken, unwritten: conflict, want: []error{errBroken, conflict}},
		"a conflict beside another failure": {unwritten: kerrors.NewAggregate([]error{other, conflict}), want: []error{other}},
		"not written":                       {unwritten: other, want: []error{other}},
	} {
		result := ctrl.Result{RequeueAfter: time.Minute}
		if c.failed != nil {
			result = ctrl.Result{}
		}
		result, err := reconciler.Ending(t.Context(), result, c.failed, c.unwritten)
		if result != (ctrl.Result{RequeueAfter: c.after}) || (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: %v, %v", name, result, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}

func TestResult(t *testing.T) {
	conflict := fmt.Errorf("write: %w", apierrors.NewConflict(schema.GroupResource{Resource: "hosts"}, "h1", errBroken))
	// as the API server's admission of namespaces answers
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s1", errBroken)
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	cases := map[string]struct {
		given, want error
		after       time.Duration
	}{
		"done":                  {after: time.Minute},
		"conflict":              {given: conflict, after: reconciler.ConflictRetry},
		"terminating namespace": {given: fmt.Errorf("create: %w", terminating), after: 10 * time.Second},
		"failed":                {given: errBroken, want: errBroken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := reconciler.Result(t.Context(), time.Minute, c.given)
			if !errors.Is(err, c.want) || result != (ctrl.Result{RequeueAfter: c.after}) {
				t.Errorf("%v, %v; want a requeue after %s, %v", result, err, c.after, c.want)
			}
		})
	}
}
