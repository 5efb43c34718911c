package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	// tokenLife is how long a token is good for that nobody came to delete.
	tokenLife = 15 * time.Minute
	// cleanUp bounds the deletion of a token by a command that was interrupted.
	cleanUp = 10 * time.Second
	// lookEvery is the time between two looks at a Host that is waited for.
	lookEvery = time.Second
	// approvalTakes bounds what a policy that goes by the machine-id takes to approve a
	// host whose agent has reported it.
	approvalTakes = 15 * time.Second
)

// findNamespace refuses one that is not there. Who may not look is not refused.
func findNamespace(ctx context.Context, c client.Client, name string) error {
	err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %q is not there: kubectl create namespace %s", name, name)
	case apierrors.IsForbidden(err):
		return nil
	}
	return err
}

func (a *addition) key() client.ObjectKey {
	return client.ObjectKey{Namespace: a.Namespace, Name: a.result.Name}
}

// host returns the Host, nil when there is none.
func (a *addition) host(ctx context.Context) (*infrav1.Host, error) {
	h := &infrav1.Host{}
	err := a.Client.Get(ctx, a.key(), h)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return h, err
}

// compareHost refuses a name that another machine has.
func (a *addition) compareHost(ctx context.Context) error {
	h, err := a.host(ctx)
	if err != nil || h == nil || h.Spec.HostID == "" {
		return err
	}
	a.facts.Known = true
	if err := a.compareMachine(h); err != nil {
		return err
	}
	if !a.facts.Identity {
		return problem(ReasonNameTaken, fmt.Sprintf("delete the Host with `kubectl -n %s delete host %s` if it was this machine", a.Namespace, a.result.Name),
			"the Host %s belongs to a machine that enrolled, and this one has no key of it: it was installed anew, or is another one", a.key())
	}
	return nil
}

// compareMachine refuses a Host that another machine enrolled as.
func (a *addition) compareMachine(h *infrav1.Host) error {
	id := h.Status.Inventory.MachineID
	if h.Spec.HostID == "" || id == "" || a.facts.MachineID == "" || id == a.facts.MachineID {
		return nil
	}
	return problem(ReasonNameTaken, "give the machine a name of its own with `hostnamectl set-hostname NAME`; if it replaces the other one, delete that Host first",
		"the Host %s belongs to another machine: its machine-id is %s, and that of this machine %s", a.key(), id, a.facts.MachineID)
}

// describeHost makes the Host in advance, or changes the one there is.
func (a *addition) describeHost(ctx context.Context) error {
	h, err := a.host(ctx)
	if err != nil {
		return err
	}
	missing := h == nil
	if missing {
		h = &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.result.Name}}
	}
	before := h.DeepCopy()
	if h.Labels == nil {
		h.Labels = map[string]string{}
	}
	maps.Copy(h.Labels, a.want.labels)
	if a.want.failureDomain != "" {
		h.Spec.FailureDomain = a.want.failureDomain
	}
	if a.want.approve {
		h.Spec.Approval = infrav1.HostApprovalApproved
	}
	if missing {
		return a.Client.Create(ctx, h)
	}
	if equality.Semantic.DeepEqual(before, h) {
		return nil
	}
	a.result.State = StateAdded
	// A UID that is another one is a conflict: it is the Host of another machine then.
	before.UID = ""
	return a.Client.Patch(ctx, h, client.MergeFrom(before))
}

// enroll makes a token for this machine alone, has the agent verify the server and
// start with it, and deletes it once the agent has a certificate.
func (a *addition) enroll(ctx context.Context) error {
	token, err := enroll.NewToken()
	if err != nil {
		return err
	}
	t := enroll.Token{Value: token, Namespace: a.Namespace, Hosts: []string{a.result.Name}, Uses: 1, Life: tokenLife}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		// It is good for one machine of this name and ends by itself.
		_ = enroll.Delete(ctx, a.Client, token)
	}()
	if err := enroll.Ensure(ctx, a.Client, t); err != nil {
		return err
	}
	// They came with the bundle, where that was brought.
	if a.want.managed && !lacksSoftware(a.facts, a.want) {
		if err := a.bringKeys(ctx); err != nil {
			return err
		}
	}
	script, err := a.joinScript()
	if err != nil {
		return err
	}
	_, err = a.machine.Run(ctx, script, strings.NewReader(token+"\n"))
	var exit *ExitError
	if errors.As(err, &exit) {
		exit.Stderr = afterLast(exit.Stderr, "slipway-agent join: ")
	}
	if err != nil {
		return err
	}
	if err := a.start(ctx); err != nil {
		return err
	}
	if err := a.wait(ctx, func(h *infrav1.Host) (bool, error) { return h != nil && h.Spec.HostID != "" && host.Connected(h), nil }); err != nil {
		return err
	}
	// The Host may be connected from before. Whoever waits with the request of a token that
	// is deleted is refused.
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		printed, err := a.machine.Run(ctx, certifiedScript, nil)
		return printed != "", err
	})
}

// certifiedScript prints something once the agent has its certificate. It does not wait: a
// script that waits stays behind when its connection is cut.
const certifiedScript = "[ ! -s " + stateDir + "/kubeconfig ] || echo certified"

// joinScript is the line that `slipway host token --join-command` prints, but for the
// token: what is on a command line every user of the machine can read.
func (a *addition) joinScript() (string, error) {
	o := join.Options{Server: a.Server, CA: a.CA, Namespace: a.Namespace, TokenFile: "/dev/stdin"}
	if a.facts.Namespace == "" || a.facts.ConfiguredName != "" {
		o.HostName = a.result.Name
	}
	if a.want.managed {
		o.PublicKeyFile = stagedKey
	}
	args, err := join.Args(o)
	if err != nil {
		return "", err
	}
	// Where sshd uses sockets, only a pipe can be opened by name.
	return "cat | " + a.agent() + " " + strings.Join(args, " "), nil
}

// available waits until machines may claim the host, or one has.
func (a *addition) available(ctx context.Context) error {
	var last *infrav1.Host
	var held time.Time
	err := a.wait(ctx, func(h *infrav1.Host) (bool, error) {
		if h == nil {
			// Its agent is enrolled, and does not enroll again by itself.
			return false, problem(ReasonNotAvailable, "the same command enrolls it again", "the Host %s was deleted before it was available", a.key())
		}
		last = h
		if h.Status.Phase == "" {
			return false, nil
		}
		if !host.Approved(h) && h.Status.Inventory.MachineID != "" && held.IsZero() {
			held = a.now()
		}
		if err := notApproved(h, !held.IsZero() && a.now().Sub(held) >= approvalTakes); err != nil {
			return false, err
		}
		return h.Spec.Claim != nil || h.Status.Phase == infrav1.HostPhaseAvailable || unavailableByChoice(h), nil
	})
	if err == nil || last == nil || ctx.Err() == nil {
		return err
	}
	p := problem(ReasonNotAvailable, fmt.Sprintf("kubectl -n %s describe host %s; on the machine `journalctl -u slipway-agent`", a.Namespace, a.result.Name),
		"the host %s is not available after %s: it is %s%s", a.key(), a.Timeout, last.Status.Phase, why(last))
	p.Err = err
	return p
}

// notApproved is why a host waits for an approval: a policy had the time to decide, or
// somebody denied it.
func notApproved(h *infrav1.Host, decided bool) error {
	remedy := host.ApproveCommand(h) + ", or the same command with --approve"
	switch {
	case h.Spec.Approval == infrav1.HostApprovalDenied:
		return problem(ReasonNotApproved, "to use it after all: "+remedy, "somebody denied the host %s: its host ID is %s", client.ObjectKeyFromObject(h), h.Spec.HostID)
	case !host.Approved(h) && decided:
		return problem(ReasonNotApproved, remedy, "the host %s enrolled and is not approved: its host ID is %s", client.ObjectKeyFromObject(h), h.Spec.HostID)
	}
	return nil
}

// unavailableByChoice are hosts that somebody keeps from being claimed.
func unavailableByChoice(h *infrav1.Host) bool {
	off := h.Spec.Unschedulable != nil && *h.Spec.Unschedulable || h.Spec.Evacuate != nil && *h.Spec.Evacuate
	return off && host.Connected(h)
}

func why(h *infrav1.Host) string {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition)
	if c == nil || c.Message == "" {
		return ""
	}
	return ", " + c.Message
}

// wait polls the Host until done, which gets nil while there is none; another machine's is
// refused. It tolerates an API server that is unavailable for a moment.
func (a *addition) wait(ctx context.Context, done func(*infrav1.Host) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		h, err := a.host(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		if err != nil {
			return false, nil //nolint:nilerr // the next look tells
		}
		if h != nil {
			if err := a.compareMachine(h); err != nil {
				return false, err
			}
		}
		return done(h)
	})
}
