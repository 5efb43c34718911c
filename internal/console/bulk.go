package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/text"
)

const bulkPattern = "/hosts/do"

// bulkActions are the actions that are done to several hosts.
var bulkActions = slices.DeleteFunc(slices.Clone(hostActions), func(a action[infrav1.Host]) bool {
	return !slices.Contains([]string{"cordon", "uncordon", "evacuate", "reboot", "clear-quarantine"}, a.name)
})

func bulkAction(r *http.Request) (*action[infrav1.Host], error) {
	i := slices.IndexFunc(bulkActions, func(a action[infrav1.Host]) bool { return a.name == r.FormValue("action") })
	if i < 0 {
		return nil, &notFoundError{r.URL.RequestURI()}
	}
	return &bulkActions[i], nil
}

// chosen is a host of a form for several.
type chosen struct {
	Namespace, Name, UID string
	// Refused says why it is left out.
	Refused string
}

// Page of the host.
func (c chosen) Page() string { return view.PageOf("Host", c.Namespace, c.Name, "") }

// bulk is the form of an action on several hosts.
type bulk struct {
	Action, Label, Means string
	Hosts                []chosen
	// Takes is how many it is done to.
	Takes    int
	Final    bool
	Commands []string
	Reason   string
	Missing  []string
	// Refused says why it cannot be done to all of them.
	Refused string
}

// bulkForm shows to which of the hosts that were selected an action is done.
func (s *server) bulkForm(v *visit) (string, any, error) {
	found, err := bulkAction(v.Request)
	if err != nil {
		return "", nil, err
	}
	b := bulk{Action: found.name, Label: strings.TrimSuffix(found.label, "…"), Means: found.means, Reason: v.FormValue("reason")}
	var takes []*infrav1.Host
	for _, value := range v.Form["host"] {
		key, _ := chosenHost(value)
		c := chosen{Namespace: key.Namespace, Name: key.Name}
		h := &infrav1.Host{}
		switch err := v.read.Get(v.Context(), key, h); {
		case err != nil:
			c.Refused = err.Error()
		case !found.offered(h):
			c.Refused = "makes no sense for it now"
		default:
			c.UID, takes = string(h.UID), append(takes, h)
			b.Final = b.Final || found.final(h, nil)
		}
		b.Hosts = append(b.Hosts, c)
	}
	b.Takes = len(takes)
	names := map[string][]string{}
	for _, h := range takes {
		names[h.Namespace] = append(names[h.Namespace], h.Name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		b.Commands = append(b.Commands, strings.Replace(found.command, " NAME", " "+strings.Join(names[namespace], " "), 1)+" -n "+namespace)
		for _, lack := range s.missing(v.Context(), namespace, found.needs) {
			b.Missing = append(b.Missing, lack+" in "+namespace)
		}
	}
	if err := together(v.Context(), v.read, found, takes); err != nil {
		b.Refused = err.Error()
	}
	return fmt.Sprintf("%s %s", b.Label, text.Plural(len(takes), "host")), b, nil
}

// chosenHost is a host by namespace/name, or as it was looked at by namespace/name/uid.
func chosenHost(value string) (key client.ObjectKey, uid string) {
	parts := strings.SplitN(value+"//", "/", 4)
	return client.ObjectKey{Namespace: parts[0], Name: parts[1]}, parts[2]
}

// together refuses what may be done to each of several hosts, and not to all at the same time: with most of its
// control planes a cluster loses its API server.
func together(ctx context.Context, c client.Reader, a *action[infrav1.Host], all []*infrav1.Host) error {
	if a.name != "reboot" {
		return nil
	}
	controlPlanes := map[client.ObjectKey]string{}
	for _, h := range all {
		m := &infrav1.HostMachine{}
		if h.Spec.Claim == nil || c.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}, m) != nil {
			continue
		}
		if _, is := m.Labels[clusterv1.MachineControlPlaneLabel]; !is {
			continue
		}
		of := client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.ClusterName}
		if other := controlPlanes[of]; other != "" {
			return fmt.Errorf("%s and %s have control planes of cluster %s: the command reboots one after the other", other, h.Name, of.Name)
		}
		controlPlanes[of] = h.Name
	}
	return nil
}

// bulkAct does what the form asks for to each of its hosts, whatever becomes of the others.
func (s *server) bulkAct(w http.ResponseWriter, r *http.Request) {
	if code, err := s.toEach(r); err != nil {
		s.answer(w, r, pageFor(bulkPattern), code, s.Explain(err).Error())
		return
	}
	http.Redirect(w, r, "/hosts", http.StatusSeeOther)
}

func (s *server) toEach(r *http.Request) (code int, err error) {
	found, err := bulkAction(r)
	if err != nil {
		return http.StatusNotFound, err
	}
	var all []*infrav1.Host
	for _, value := range r.PostForm["host"] {
		key, _ := chosenHost(value)
		h := &infrav1.Host{}
		if err := s.Client.Get(r.Context(), key, h); err != nil {
			return statusOf(err), err
		}
		all = append(all, h)
	}
	if err := together(r.Context(), s.Client, found, all); err != nil {
		return http.StatusConflict, err
	}
	confirmed := r.PostForm.Get("confirm") == fmt.Sprint(len(all))
	var errs []error
	for _, value := range r.PostForm["host"] {
		key, uid := chosenHost(value)
		form := url.Values{"reason": r.PostForm["reason"], "uid": {uid}}
		if confirmed {
			form.Set("confirm", key.Name)
		}
		refused, err := hostActor.perform(r.Context(), s, found, key, form)
		if err != nil {
			errs, code = append(errs, err), max(code, refused)
		}
	}
	if len(errs) > 0 && !confirmed && code == http.StatusBadRequest {
		return code, fmt.Errorf("this cannot be undone: confirm it by the number of hosts, %d", len(all))
	}
	return code, errors.Join(errs...)
}

// bulkButtons are the actions that the list of hosts offers.
func bulkButtons() []bulk {
	var buttons []bulk
	for i := range bulkActions {
		buttons = append(buttons, bulk{Action: bulkActions[i].name, Label: bulkActions[i].label})
	}
	return buttons
}
