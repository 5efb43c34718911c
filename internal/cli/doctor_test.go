package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/test/clitest"
)

// clone makes a Host that shares its identity, which is an error of it.
func clone(t *testing.T, namespace, name string) {
	t.Helper()
	h := host(namespace, name, "r1")
	create(t, h)
	h.Status.Conditions = []metav1.Condition{{
		Type: infrav1.DuplicateIdentityCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostDuplicateIdentityReason, Message: "a twin", LastTransitionTime: metav1.Now(),
	}}
	if err := env.Client.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// expiredToken makes a bootstrap token that enrolled nobody.
func expiredToken(t *testing.T, namespace string) {
	t.Helper()
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-of-" + namespace},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenExpirationKey:  []byte(time.Now().Add(-time.Minute).Format(time.RFC3339)),
			bootstrapapi.BootstrapTokenExtraGroupsKey: []byte(infrav1.BootstrapGroup + "," + infrav1.BootstrapGroupPrefix + namespace),
		},
	})
}

func wantExit(t *testing.T, err error, code int) {
	t.Helper()
	if got, silent := ExitCode(err); got != code || !silent {
		t.Errorf("exit code %d (%v), want %d", got, err, code)
	}
}

func reportOf(t *testing.T, out string) doctor.Report {
	t.Helper()
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return report
}

func TestDoctor(t *testing.T) {
	kubeconfig := as(t, "", "")
	well, sick, stale := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	create(t, host(well, "h1", "r1"))
	clone(t, sick, "h1")
	expiredToken(t, stale)
	look := func(args ...string) (string, error) {
		return run(t, append([]string{"doctor", "--kubeconfig", kubeconfig}, args...)...)
	}
	out, err := look("-n", well)
	wantExit(t, err, 0)
	if !strings.HasPrefix(out, "No problems found (") || !strings.HasSuffix(out, " checks, 1 host, 0 clusters).\n") {
		t.Errorf("in a namespace that is well:\n%s", out)
	}
	out, err = look("-n", sick, "-o", "json")
	wantExit(t, err, exitFindings)
	report := reportOf(t, out)
	if len(report.Findings) != 1 || len(report.Unread) != 0 || report.Findings[0].Check != "DuplicateHost" || report.Findings[0].Object.Name != "h1" || report.Findings[0].Since == nil {
		t.Errorf("found %s", out)
	}
	// Of the cluster as a whole it is told what is about the namespace.
	out, err = look("-n", stale)
	wantExit(t, err, 0)
	if !strings.Contains(out, "TokenExpires") || !strings.Contains(out, "slipway host token -n "+stale) {
		t.Errorf("an expired token:\n%s", out)
	}
	_, err = look("-n", stale, "--strict")
	wantExit(t, err, exitFindings)
	if out, err = look("-A", "-o", "name"); !strings.Contains(out, "host.infrastructure.slipway.dev/h1\n") || !strings.Contains(out, "secret/bootstrap-token-of-"+stale+"\n") {
		t.Errorf("everywhere: %v\n%s", err, out)
	}
}

// What the user may not read is told, and no error; nothing at all is one.
func TestDoctorWithLimitedRights(t *testing.T) {
	kubeconfig := as(t, "dora", "")
	ns := env.Namespace(t)
	clone(t, ns, "h1")
	_, err := run(t, "doctor", "--kubeconfig", kubeconfig, "-n", ns)
	var missing *management.MissingRightError
	if !errors.As(err, &missing) || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `user "dora" may not list hosts.infrastructure.slipway.dev`) {
		t.Fatalf("without any right: %v", err)
	}
	env.GrantIn(t, "dora", ns, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}})
	out, err := run(t, "doctor", "--kubeconfig", kubeconfig, "-n", ns, "-o", "json")
	wantExit(t, err, exitFindings)
	report := reportOf(t, out)
	if len(report.Findings) != 1 || len(report.Unread) < 8 {
		t.Fatalf("found %s", out)
	}
	for _, unread := range report.Unread {
		if unread.Kind == "Host" || !strings.Contains(unread.Message, `user "dora" may not list `) {
			t.Errorf("unread: %+v", unread)
		}
	}
	if out, _ = run(t, "doctor", "--kubeconfig", kubeconfig, "-n", ns); !strings.Contains(out, "not looked at: Secret (") || !strings.Contains(out, "1 error in what you may read. ") {
		t.Errorf("as a table:\n%s", out)
	}
}

// downPlane is a plane of this machine that does not run.
type downPlane struct{ management.Plane }

func (downPlane) Dir() string                   { return "/nowhere" }
func (downPlane) Config() (*rest.Config, error) { return nil, management.ErrNotRunning }
func (downPlane) Hosts(context.Context, management.Connect, status.Scope) (status.Status, error) {
	return status.Status{Plane: status.Plane{Message: management.ErrNotRunning.Error()}}, nil
}

type localPlane struct{}

func (localPlane) Plane() (management.Plane, error) { return downPlane{}, nil }
func (localPlane) Named(*cobra.Command) bool        { return true }

// That the plane of this machine does not run is what doctor is asked for.
func TestDoctorOfAPlaneThatIsDown(t *testing.T) {
	out, err := clitest.Run(t.Context(), Root(Program{Name: "slipway", Local: localPlane{}}), "doctor")
	wantExit(t, err, exitFindings)
	for _, want := range []string{"PlaneNotReady", "  next: slipway up", "not looked at: anything in the plane (the plane is not running"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
