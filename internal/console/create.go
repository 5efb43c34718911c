package console

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/console/view"
)

const createPattern = "/clusters/new"

// createRights are those for what a Cluster of a class that exists consists of.
var createRights = []right{
	onClusters("create"), {"create", clusterv1.GroupVersion.Group, "machinehealthchecks"},
	{"create", addonsv1.GroupVersion.Group, "clusterresourcesets"}, {"create", "", "configmaps"},
}

// newCluster is the form for a cluster.
type newCluster struct {
	Fields  []field
	Reason  string
	Command string
	Missing []string
	// Free is how many hosts can be claimed in Namespace.
	Namespace string
	Free      int
}

// createForm has what a new cluster needs, filled in where the management cluster knows it.
func (s *server) createForm(v *visit) (string, any, error) {
	free := map[string]int{}
	for i := range v.o.Hosts {
		h := &v.o.Hosts[i]
		free[h.Namespace] += 0
		if h.Spec.Claim == nil {
			free[h.Namespace]++
		}
	}
	namespaces := slices.Sorted(maps.Keys(free))
	namespace := cmp.Or(v.FormValue("namespace"), s.Namespace, slices.Concat(namespaces, []string{"default"})[0])
	class := v.FormValue("class")
	if class == "" {
		var err error
		if class, err = change.DefaultClass(v.Context(), v.read, namespace); err != nil {
			class = clusters.DefaultClass // the user may not read classes
		}
	}
	if !slices.Contains(namespaces, namespace) {
		namespaces = append(namespaces, namespace)
	}
	value := func(name, other string) string { return cmp.Or(v.FormValue(name), other) }
	form := newCluster{
		Namespace: namespace, Free: free[namespace], Reason: v.FormValue("reason"), Missing: s.missing(v.Context(), namespace, createRights),
		Fields: []field{
			{Name: "name", Label: "Name", Type: "text", Value: v.FormValue("name")},
			{Name: "namespace", Label: "Namespace", Value: namespace, Options: namespaces},
			{Name: "endpoint", Label: "Endpoint, an unused address of the hosts' network", Type: "text", Value: v.FormValue("endpoint")},
			{Name: "version", Label: "Version of Kubernetes", Type: "text", Value: value("version", ""), Options: change.Versions(v.o.Hosts)},
			{Name: "controlPlanes", Label: "Control planes", Value: value("controlPlanes", "1"), Options: []string{"1", "3", "5"}},
			{Name: "workers", Label: "Workers", Type: "number", Value: value("workers", "1")},
			{Name: "class", Label: "ClusterClass", Type: "text", Value: class},
		},
	}
	form.Command = form.command()
	return "New cluster", form, nil
}

// plain are values that a shell takes as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9.:-]+$`)

// command is the equal one, with placeholders for what is not filled in.
func (f *newCluster) command() string {
	values := map[string]string{"name": "NAME", "endpoint": "ADDRESS"}
	for _, field := range f.Fields {
		if plain.MatchString(field.Value) {
			values[field.Name] = field.Value
		} else if len(field.Options) > 0 {
			values[field.Name] = field.Options[0]
		}
	}
	command := fmt.Sprintf("slipway cluster create %s --endpoint %s --control-planes %s --pool pool=%s --class %s -n %s", values["name"], values["endpoint"], values["controlPlanes"], cmp.Or(values["workers"], "1"), values["class"], values["namespace"])
	if version := values["version"]; version != "" {
		command += " --kubernetes-version " + version
	}
	return command
}

// create creates the cluster of a form with the rights of the user; or it only shows the equal command.
func (s *server) create(w http.ResponseWriter, r *http.Request) {
	if r.PostForm.Get("check") != "" {
		s.answer(w, r, pageFor(createPattern), http.StatusOK, "")
		return
	}
	key := client.ObjectKey{Namespace: r.PostForm.Get("namespace"), Name: strings.TrimSpace(r.PostForm.Get("name"))}
	if code, err := s.createCluster(r, key); err != nil {
		s.answer(w, r, pageFor(createPattern), code, s.Explain(err).Error())
		return
	}
	to := url.URL{Path: view.PageOf("Cluster", key.Namespace, key.Name, "")}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

func (s *server) createCluster(r *http.Request, key client.ObjectKey) (int, error) {
	form := r.PostForm
	controlPlanes, err := strconv.ParseInt(form.Get("controlPlanes"), 10, 32)
	if err != nil {
		return http.StatusBadRequest, fmt.Errorf("%q is no number of control planes", form.Get("controlPlanes"))
	}
	pools, err := clusters.ParsePools([]string{"pool=" + form.Get("workers")})
	if err != nil {
		return http.StatusBadRequest, err
	}
	objects, err := change.NewCluster(r.Context(), s.Client, clusters.Options{
		Namespace: key.Namespace, Name: key.Name, Class: strings.TrimSpace(form.Get("class")), Version: form.Get("version"),
		ControlPlanes: int32(controlPlanes), Pools: pools, Endpoint: strings.TrimSpace(form.Get("endpoint")), Network: clusters.Network{Flannel: true},
	})
	if invalid := (*clusters.InvalidError)(nil); errors.As(err, &invalid) || apierrors.IsNotFound(err) {
		return http.StatusBadRequest, err
	}
	if err == nil {
		err = change.Create(r.Context(), s.Client, objects, func(string, string) {})
	}
	if err != nil {
		return statusOf(err), err
	}
	_ = change.Record(r.Context(), s.Client, objects[len(objects)-1], "Create", reasonOf(form))
	return http.StatusOK, nil
}
