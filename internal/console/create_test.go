package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A form makes the cluster that the equal command makes, and what is filled in wrongly is said.
func TestCreateACluster(t *testing.T) {
	namespace := env0(t)
	cluster(t, namespace)
	c := start(t, "", namespace)
	const form = "/clusters/new"
	want(t, "the clusters", c.page(t, "/clusters"), `href="`+form+`"`)
	want(t, "the form", c.page(t, form+"?name=prod&controlPlanes=3"), "slipway cluster create prod --endpoint ADDRESS --control-planes 3 --pool pool=1 --class slipway -n "+namespace)
	good := c.filled(t, form, map[string]string{
		"name": "prod", "namespace": namespace, "endpoint": "192.0.2.100", "version": "v1.36.3", "controlPlanes": "3", "workers": "2", "class": "slipway", "reason": "ticket 7",
	})
	for name, bad := range map[string]struct {
		change func(url.Values)
		says   string
	}{
		"no name":      {func(v url.Values) { v.Set("name", "Prod!") }, "is not a name"},
		"no address":   {func(v url.Values) { v.Set("endpoint", "") }, "--endpoint"},
		"no number":    {func(v url.Values) { v.Set("workers", "-1") }, "--pool"},
		"even planes":  {func(v url.Values) { v.Set("controlPlanes", "2") }, "--control-planes: "},
		"no class":     {func(v url.Values) { v.Set("class", "none") }, "&#34;none&#34; not found"},
		"no version":   {func(v url.Values) { v.Set("version", "new") }, "version"},
		"what it does": {func(v url.Values) { v.Set("name", "$(reboot)"); v.Set("check", "1") }, "slipway cluster create NAME --endpoint 192.0.2.100"},
	} {
		values := maps.Clone(good)
		bad.change(values)
		code, text := c.requests(t, form, values)
		if wanted := map[bool]int{true: http.StatusOK, false: http.StatusBadRequest}[values.Has("check")]; code != wanted {
			t.Errorf("%s answers %d, want %d", name, code, wanted)
		}
		want(t, name, text, bad.says)
	}
	list := &clusterv1.ClusterList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d clusters, %v", len(list.Items), err)
	}
	if code, text := c.requests(t, form, good); code != http.StatusSeeOther {
		t.Fatalf("answers %d: %s", code, text)
	}
	made := current[clusterv1.Cluster](t, namespace, "prod")
	if top := made.Spec.Topology; *top.ControlPlane.Replicas != 3 || *top.Workers.MachinePools[0].Replicas != 2 || top.Version != "v1.36.3" {
		t.Errorf("%+v", top)
	}
	if code, text := c.requests(t, form, good); code != http.StatusConflict {
		t.Errorf("a second one of its name answers %d: %.300s", code, text)
	}
}
