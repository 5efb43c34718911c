package console

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/console/view"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/text"
)

const (
	actOnHost    = "/hosts/{namespace}/{name}/do/{action}"
	actOnCluster = "/clusters/{namespace}/{name}/do/{action}"
)

// right is a verb on a kind.
type right struct{ verb, group, resource string }

func (r right) String() string { return r.verb + " " + r.resource }

func onHosts(verb string) right { return right{verb, infrav1.GroupVersion.Group, "hosts"} }
func onHostMachines(verb string) right {
	return right{verb, infrav1.GroupVersion.Group, "hostmachines"}
}
func onMachines(verb string) right { return right{verb, clusterv1.GroupVersion.Group, "machines"} }
func onClusters(verb string) right { return right{verb, clusterv1.GroupVersion.Group, "clusters"} }

// action is something that people request of an object: a form, and what is done with it.
type action[T any] struct {
	// name in the path, and label of the button.
	name, label string
	// means says what happens.
	means string
	needs []right
	// fields besides the reason.
	fields func(*T) []field
	// offered says whether it makes sense.
	offered func(*T) bool
	// final is true for what cannot be undone: the name of the object is asked for.
	final func(*T, url.Values) bool
	// command is the equal one, without the namespace.
	command string
	do      func(ctx context.Context, c client.Client, o *T, form url.Values) error
	// file is what the form is answered with, once it is recorded, instead of the page of the object.
	file func(ctx context.Context, s *server, of client.ObjectKey) ([]byte, error)
}

// field of a form.
type field struct {
	Name, Label, Type, Value string
	// Options to choose from, instead of a text.
	Options []string
}

func always[T any](*T, url.Values) bool { return true }
func never[T any](*T, url.Values) bool  { return false }

func reasonOf(form url.Values) string { return text.OneLine(form.Get("reason")) }

// hostActions are those of hosts, in the order of their buttons.
var hostActions = []action[infrav1.Host]{
	{
		name: "deny", label: "Deny…", means: "The host is not approved: nothing claims it, and its page says that somebody denied it.",
		needs: []right{onHosts("get"), onHosts("patch"), onHosts("approve")}, final: never[infrav1.Host],
		offered: func(h *infrav1.Host) bool { return h.Spec.Approval == infrav1.HostApprovalPending },
		command: `kubectl patch hosts.infrastructure.slipway.dev NAME --type=merge -p '{"spec":{"approval":"Denied"}}'`,
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, _ url.Values) error {
			return change.Deny(ctx, c, h)
		},
	},
	{
		name: "cordon", label: "Cordon…", means: "Nothing claims the host from now on. A machine that has it keeps it.",
		needs: []right{onHosts("get"), onHosts("patch")}, final: never[infrav1.Host],
		offered: func(h *infrav1.Host) bool { return hosts.Approved(h) && !ptr.Deref(h.Spec.Unschedulable, false) },
		command: "slipway host cordon NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, form url.Values) error {
			return change.Cordon(ctx, c, h, reasonOf(form))
		},
	},
	{
		name: "evacuate", label: "Evacuate…", means: "The host becomes empty: its pool replaces the machine on it, once another host is free, then the host resets. Nothing claims it.",
		needs: []right{onHosts("get"), onHosts("patch"), onHostMachines("get")}, final: never[infrav1.Host],
		offered: func(h *infrav1.Host) bool { return hosts.Approved(h) && !ptr.Deref(h.Spec.Evacuate, false) },
		command: "slipway host evacuate NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, form url.Values) error {
			return change.Evacuate(ctx, c, h, reasonOf(form))
		},
	},
	{
		name: "uncordon", label: "Uncordon…", means: "The host may be claimed again: the end of cordon and of evacuate.",
		needs: []right{onHosts("get"), onHosts("patch")}, final: never[infrav1.Host],
		offered: func(h *infrav1.Host) bool {
			return ptr.Deref(h.Spec.Unschedulable, false) || ptr.Deref(h.Spec.Evacuate, false)
		},
		command: "slipway host uncordon NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, _ url.Values) error {
			return change.Uncordon(ctx, c, h)
		},
	},
	{
		name: "reboot", label: "Reboot…", means: "The agent reboots the host once. Pods are not drained before: they start again with their node.",
		needs: []right{onHosts("get"), onHostMachines("get"), onHostMachines("patch")}, final: always[infrav1.Host],
		offered: func(h *infrav1.Host) bool {
			return h.Spec.Claim != nil && h.Spec.Desired != nil && hosts.Bootstrapped(h)
		},
		command: "slipway host reboot NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, _ url.Values) error {
			_, err := change.Reboot(ctx, c, h, infrav1.RebootImmediate)
			return err
		},
	},
	{
		name: "replace", label: "Replace machine…", means: "The Machine on the host is drained and deleted, and its owner makes another one on another host. The host resets.",
		needs: []right{onHosts("get"), onHostMachines("get"), onMachines("get"), onMachines("delete")}, final: always[infrav1.Host],
		offered: func(h *infrav1.Host) bool { return h.Spec.Claim != nil && !hosts.Releasing(h) },
		command: "slipway host replace NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, _ url.Values) error {
			return change.Replace(ctx, c, h)
		},
	},
	{
		name: "clear-quarantine", label: "Clear quarantine…", means: "You confirm that the host is clean, which it could not prove: look at what is named, and clean it by hand before. From then on it may be claimed.",
		needs: []right{onHosts("get"), onHosts("patch")}, final: always[infrav1.Host],
		offered: func(h *infrav1.Host) bool { return hosts.StateOf(h).Quarantined() },
		command: "slipway host clear-quarantine NAME --reason REASON",
		do: func(ctx context.Context, c client.Client, h *infrav1.Host, _ url.Values) error {
			return change.ClearQuarantine(ctx, c, h)
		},
	},
}

// controlPlane is what the control plane is called among the groups of machines that are scaled.
const controlPlane = "control plane"

// clusterActions are those of clusters.
var clusterActions = []action[clusterv1.Cluster]{
	{
		name: "scale", label: "Scale…", means: "The group of machines gets as many machines. Those that are too many are drained and deleted, and their hosts reset.",
		needs:   []right{onClusters("get"), onClusters("patch")},
		offered: func(c *clusterv1.Cluster) bool { return c.Spec.Topology.IsDefined() },
		fields: func(c *clusterv1.Cluster) []field {
			return []field{{Name: "group", Label: "Machines of", Options: append(clusters.WorkerNames(&c.Spec.Topology.Workers), controlPlane)}, {Name: "replicas", Label: "How many", Type: "number"}}
		},
		final: func(c *clusterv1.Cluster, form url.Values) bool {
			if form == nil {
				return true
			}
			n, err := strconv.ParseInt(form.Get("replicas"), 10, 32)
			return err == nil && int32(n) < replicasOf(c, form.Get("group"))
		},
		command: "slipway cluster scale NAME --pool POOL=REPLICAS",
		do: func(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, form url.Values) error {
			n, err := strconv.ParseInt(form.Get("replicas"), 10, 32)
			if err != nil || n < 0 {
				return fmt.Errorf("%q is no number of machines", form.Get("replicas"))
			}
			to := clusters.Change{Pools: []clusters.Pool{{Name: form.Get("group"), Replicas: int32(n)}}}
			if form.Get("group") == controlPlane {
				to = clusters.Change{ControlPlanes: ptr.To(int32(n))}
			}
			return change.Cluster(ctx, c, cluster, to.Apply)
		},
	},
	{
		name: "upgrade", label: "Upgrade…", means: "The control plane is upgraded, then the workers. Hooks and lifecycle policies hold it back like any other change of the version.",
		needs:   []right{onClusters("get"), onClusters("patch")},
		offered: func(c *clusterv1.Cluster) bool { return c.Spec.Topology.IsDefined() },
		fields: func(c *clusterv1.Cluster) []field {
			return []field{{Name: "version", Label: "Version of Kubernetes; it has " + c.Spec.Topology.Version, Type: "text"}}
		},
		final: always[clusterv1.Cluster], command: "slipway cluster upgrade NAME --kubernetes-version VERSION",
		do: func(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, form url.Values) error {
			if form.Get("version") == "" {
				return errors.New("say which version")
			}
			return change.Cluster(ctx, c, cluster, clusters.Change{Version: strings.TrimSpace(form.Get("version"))}.Apply)
		},
	},
	{
		name: "pause", label: "Pause…", means: "Nothing of the cluster is changed until it is resumed: no rollout, no repair, no scaling. What runs, runs on.",
		needs: []right{onClusters("get"), onClusters("patch")}, final: never[clusterv1.Cluster],
		offered: func(c *clusterv1.Cluster) bool { return !ptr.Deref(c.Spec.Paused, false) },
		command: `kubectl patch clusters.cluster.x-k8s.io NAME --type=merge -p '{"spec":{"paused":true}}'`,
		do: func(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, _ url.Values) error {
			return change.Cluster(ctx, c, cluster, change.Pause(true))
		},
	},
	{
		name: "resume", label: "Resume…", means: "Changes of the cluster go on where they were paused.",
		needs: []right{onClusters("get"), onClusters("patch")}, final: never[clusterv1.Cluster],
		offered: func(c *clusterv1.Cluster) bool { return ptr.Deref(c.Spec.Paused, false) },
		command: `kubectl patch clusters.cluster.x-k8s.io NAME --type=merge -p '{"spec":{"paused":false}}'`,
		do: func(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, _ url.Values) error {
			return change.Cluster(ctx, c, cluster, change.Pause(false))
		},
	},
	{
		name: "kubeconfig", label: "Kubeconfig…", means: "Your browser saves a file that gives all rights in the cluster, with no end but that of its certificate: keep it as you keep a password.",
		needs: []right{onClusters("get"), {"get", "", "secrets"}}, final: never[clusterv1.Cluster],
		offered: func(c *clusterv1.Cluster) bool {
			return conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition)
		},
		command: "slipway kubeconfig NAME --merge",
		do:      func(context.Context, client.Client, *clusterv1.Cluster, url.Values) error { return nil },
		file: func(ctx context.Context, s *server, of client.ObjectKey) ([]byte, error) {
			return s.Kubeconfig(ctx, s.Client, of)
		},
	},
}

// replicasOf is how many machines a group of a topology is to have.
func replicasOf(c *clusterv1.Cluster, group string) int32 {
	t := &c.Spec.Topology
	if group == controlPlane {
		return ptr.Deref(t.ControlPlane.Replicas, 0)
	}
	return clusters.Replicas(&t.Workers, group)
}

// button leads to the form of an action.
type button struct {
	Label, Page string
	// Missing are the rights that the user lacks.
	Missing []string
}

// isOffered says whether an action makes sense, here and now.
func (a *action[T]) isOffered(s *server, o *T) bool {
	return (a.file == nil || s.Kubeconfig != nil) && a.offered(o)
}

// buttonsFor are the actions that make sense for an object.
func buttonsFor[T any](s *server, v *visit, kind string, o *T, actions []action[T]) []button {
	key := keyOf(v.Request)
	var all []button
	for i := range actions {
		if a := &actions[i]; a.isOffered(s, o) {
			all = append(all, button{a.label, view.PageOf(kind, key.Namespace, key.Name, "") + "/do/" + a.name, s.missing(v.Context(), key.Namespace, a.needs)})
		}
	}
	return all
}

// request is the form of an action.
type request struct {
	Object          string
	Page            string
	Namespace, Name string
	UID             string
	Label, Means    string
	Fields          []field
	Reason          string
	// Final asks for the name of the object.
	Final   bool
	Command string
	Missing []string
}

// actor serves the forms of a kind.
type actor[T any, P interface {
	*T
	client.Object
}] struct {
	kind    string
	pattern string
	actions []action[T]
}

var (
	hostActor    = actor[infrav1.Host, *infrav1.Host]{"Host", actOnHost, hostActions}
	clusterActor = actor[clusterv1.Cluster, *clusterv1.Cluster]{"Cluster", actOnCluster, clusterActions}
)

func (a actor[T, P]) find(r *http.Request) (*action[T], error) {
	i := slices.IndexFunc(a.actions, func(known action[T]) bool { return known.name == r.PathValue("action") })
	if i < 0 {
		return nil, &notFoundError{r.URL.Path}
	}
	return &a.actions[i], nil
}

// form shows what an action does, and asks for what it needs.
func (a actor[T, P]) form(s *server, v *visit) (string, any, error) {
	found, err := a.find(v.Request)
	if err != nil {
		return "", nil, err
	}
	key, o := keyOf(v.Request), P(new(T))
	if err := v.read.Get(v.Context(), key, o); err != nil {
		return "", nil, fmt.Errorf("%s %s: %w", a.kind, key, err)
	}
	f := request{
		Object: a.kind + " " + key.Name, Page: view.PageOf(a.kind, key.Namespace, key.Name, ""), Namespace: key.Namespace, Name: key.Name, UID: string(o.GetUID()),
		Label: strings.TrimSuffix(found.label, "…"), Means: found.means, Reason: v.FormValue("reason"), Final: found.final(o, nil), Missing: s.missing(v.Context(), key.Namespace, found.needs),
		Command: strings.Replace(found.command, " NAME", " "+key.Name, 1) + " -n " + key.Namespace,
	}
	if found.fields != nil {
		f.Fields = found.fields(o)
		for i := range f.Fields {
			f.Fields[i].Value = v.FormValue(f.Fields[i].Name)
		}
	}
	return f.Label + " " + f.Object, f, nil
}

// act does what a form asks for, with the rights of the user, to the object that it was shown for.
func (a actor[T, P]) act(s *server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := keyOf(r)
		file, code, err := a.carryOut(s, r)
		if err != nil {
			s.answer(w, r, pageFor(a.pattern), code, s.Explain(err).Error())
			return
		}
		if file != nil {
			w.Header().Set("Content-Type", "application/yaml")
			w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": key.Name + "." + r.PathValue("action")}))
			_, _ = w.Write(file) //nolint:gosec // G705: a file to save, of another type than pages
			return
		}
		back := url.URL{Path: view.PageOf(a.kind, key.Namespace, key.Name, "")}
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
	}
}

func (a actor[T, P]) carryOut(s *server, r *http.Request) (file []byte, code int, err error) {
	found, err := a.find(r)
	if err != nil {
		return nil, http.StatusNotFound, err
	}
	code, err = a.perform(r.Context(), s, found, keyOf(r), r.PostForm)
	if err == nil && found.file != nil {
		if file, err = found.file(r.Context(), s, keyOf(r)); err != nil {
			code = statusOf(err)
		}
	}
	return file, code, err
}

// perform does what a filled-in form asks for to one object.
func (a actor[T, P]) perform(ctx context.Context, s *server, found *action[T], key client.ObjectKey, form url.Values) (int, error) {
	refused, o := 0, P(new(T))
	err := change.Live(ctx, s.Client, key, o, func() error {
		switch {
		case string(o.GetUID()) != form.Get("uid"):
			refused = http.StatusConflict
			return fmt.Errorf("another %s has this name now: look at it", a.kind)
		case !found.isOffered(s, o):
			refused = http.StatusConflict
			return errors.New("it has changed since you looked at it, and this makes no sense any more")
		case found.final(o, form) && form.Get("confirm") != key.Name:
			refused = http.StatusBadRequest
			return fmt.Errorf("this cannot be undone: confirm it by the name %s", key.Name)
		}
		return found.do(ctx, s.Client, o, form)
	})
	if err != nil {
		code := refused
		if code == 0 {
			code = statusOf(err)
		}
		// What is neither the API server's answer nor a failure to reach it is about what was filled in.
		if away := (*url.Error)(nil); code == http.StatusBadGateway && !errors.As(err, &away) {
			code = http.StatusBadRequest
		}
		return code, fmt.Errorf("%s %s: %w", a.kind, key, err)
	}
	// The API server's audit log has what was done; who may create events leaves it where people look.
	_ = change.Record(ctx, s.Client, o, strings.TrimSuffix(found.label, "…"), reasonOf(form))
	return http.StatusOK, nil
}

// rights remembers for a while what the user may do.
type rights struct {
	mu    sync.Mutex
	known map[rightIn]reviewed
}

type rightIn struct {
	right
	namespace string
}

type reviewed struct {
	allowed bool
	at      time.Time
}

// reviewAgain is after what time the API server is asked again.
const reviewAgain = 30 * time.Second

// missing are those of rights that the user lacks. What cannot be known is not: the API server decides
// again when something is done.
func (s *server) missing(ctx context.Context, namespace string, needs []right) []string {
	if s.ReadOnly {
		return []string{"changes by this console, which is read-only"}
	}
	var lacks []string
	for _, r := range needs {
		if !s.may(ctx, rightIn{r, namespace}) {
			lacks = append(lacks, r.String())
		}
	}
	return lacks
}

func (s *server) may(ctx context.Context, r rightIn) bool {
	s.rights.mu.Lock()
	known, ok := s.rights.known[r]
	s.rights.mu.Unlock()
	if ok && s.now().Sub(known.at) < reviewAgain {
		return known.allowed
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: r.verb, Group: r.group, Resource: r.resource},
	}}
	allowed := s.Client.Create(ctx, review) != nil || review.Status.Allowed
	s.rights.mu.Lock()
	defer s.rights.mu.Unlock()
	if s.rights.known == nil {
		s.rights.known = map[rightIn]reviewed{}
	}
	s.rights.known[r] = reviewed{allowed, s.now()}
	return allowed
}
