package main

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/manager"
)

// The API server of the plane, in its network namespace.
const (
	planeAddress = "127.0.0.1:6443"
	planeURL     = "https://" + planeAddress
)

// connect returns the plane's API with the rights of its administrator.
func (s settings) connect() (*rest.Config, client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags(planeURL, filepath.Join(s.inside, "kubeconfig"))
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	// Warnings on the names of finalizers are no news.
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	if err := manager.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return config, c, err
}
