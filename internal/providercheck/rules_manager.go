package providercheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// managerContainer is the name clusterctl knows the provider's container by.
const managerContainer = "manager"

var managerRules = []Rule{
	{
		ID: "manager-deployment", Level: Must, Contract: "clusterctl provider contract, 3.3",
		Title:  "The container that runs the provider is called manager",
		Remedy: "call the container that runs the controllers or the extension's server " + managerContainer,
		check: func(r *Release, found report) {
			deployments := of(r.Components, "Deployment")
			var names []string
			for _, o := range deployments {
				for _, c := range list(o.Fields, "spec", "template", "spec", "containers") {
					if text(c, "name") == managerContainer {
						return
					}
					names = append(names, text(c, "name"))
				}
			}
			if len(deployments) > 0 {
				found(deployments[0].at("spec", "template", "spec", "containers"), fmt.Sprintf("the containers are called %s", strings.Join(names, ", ")))
			}
		},
	},
	{
		ID: "manager-workload", Level: Should, Contract: "clusterctl provider contract, 3.3",
		Title:  "The provider runs in a Deployment",
		Remedy: "run the controllers or the extension's server in a Deployment: clusterctl waits for those, and changes their images",
		check: func(r *Release, found report) {
			if len(r.Components) > 0 && len(of(r.Components, "Deployment")) == 0 {
				found(place{file: r.Components[0].Name}, "there is no Deployment")
			}
		},
	},
	{
		ID: "manager-namespaces", Level: Must, Contract: "clusterctl provider contract, 3.3",
		Title:  "The manager watches all namespaces",
		Remedy: "remove the flag, or leave it empty: clusterctl installs providers for all namespaces only",
		check: func(r *Release, found report) {
			eachContainer(r, func(o *Object, c any, path []string) {
				args := slices.Concat(texts(c, "command"), texts(c, "args"))
				for i, arg := range args {
					value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "namespace=")
					if strings.TrimLeft(arg, "-") == "namespace" && strings.HasPrefix(arg, "-") && i+1 < len(args) {
						value, ok = args[i+1], true
					}
					if ok && value != "" && !chosen(value) && text(c, "name") == managerContainer {
						found(o.at(path...), fmt.Sprintf("the manager is started with --namespace=%s", value))
					}
				}
			})
		},
	},
	{
		ID: "manager-image", Level: Should, Contract: "clusterctl provider contract, 3.3",
		Title:  "Images have a tag or a digest",
		Remedy: "write registry, repository and tag in full, as in registry.example.com/team/manager:v1.0.0: without one, it is another image every day",
		check: func(r *Release, found report) {
			eachContainer(r, func(o *Object, c any, path []string) {
				if why := notCanonical(text(c, "image")); why != "" {
					found(o.at(append(path, "image")...), fmt.Sprintf("image %q %s", text(c, "image"), why))
				}
			})
		},
	},
}

// eachImage calls f for the images that clusterctl parses.
func eachImage(o *Object, f func(image string, path []string)) {
	if o.Kind() != "Deployment" && o.Kind() != "DaemonSet" {
		return
	}
	for _, field := range []string{"initContainers", "containers"} {
		for i, c := range list(o.Fields, "spec", "template", "spec", field) {
			f(text(c, "image"), []string{"spec", "template", "spec", field, fmt.Sprint(i), "image"})
		}
	}
}

func eachContainer(r *Release, f func(o *Object, container any, path []string)) {
	for _, o := range slices.Concat(of(r.Components, "Deployment"), of(r.Components, "DaemonSet")) {
		for _, field := range []string{"initContainers", "containers"} {
			for i, c := range list(o.Fields, "spec", "template", "spec", field) {
				f(o, c, []string{"spec", "template", "spec", field, fmt.Sprint(i)})
			}
		}
	}
}

func notCanonical(image string) string {
	named, err := reference.ParseNamed(image)
	if err == nil && reference.IsNameOnly(named) && !chosen(image) {
		return "has neither tag nor digest"
	}
	return "" // an error is found by components-types
}
