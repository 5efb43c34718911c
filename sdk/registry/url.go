package registry

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// BaseURL returns the URL of an extension, to which the paths of its hooks are
// appended. Exactly one of url and service must be set. A URL must be https and
// have neither user, query nor fragment: they would be sent to whoever answers.
func BaseURL(config runtimev1.ClientConfig) (*url.URL, error) {
	if config.Service.IsDefined() {
		if config.URL != "" {
			return nil, errors.New("clientConfig: url and service exclude each other")
		}
		return serviceURL(config.Service)
	}
	if config.URL == "" {
		return nil, errors.New("clientConfig: one of url and service is required")
	}
	u, err := url.Parse(config.URL)
	if err != nil {
		// The error of url.Parse repeats the URL, which may hold a password.
		return nil, errors.New("clientConfig.url: not a URL")
	}
	switch {
	case u.Scheme != "https":
		return nil, fmt.Errorf("clientConfig.url: the scheme is %q, want https", u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("clientConfig.url: the host is missing")
	case u.User != nil:
		return nil, errors.New("clientConfig.url: user and password are not allowed")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("clientConfig.url: query parameters are not allowed")
	case u.Fragment != "" || strings.Contains(config.URL, "#"):
		return nil, errors.New("clientConfig.url: a fragment is not allowed")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("clientConfig.url: invalid port %q", port)
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, nil
}

func serviceURL(service runtimev1.ServiceReference) (*url.URL, error) {
	if errs := validation.IsDNS1035Label(service.Name); len(errs) > 0 {
		return nil, fmt.Errorf("clientConfig.service.name: %s", strings.Join(errs, ", "))
	}
	if errs := validation.IsDNS1123Label(service.Namespace); len(errs) > 0 {
		return nil, fmt.Errorf("clientConfig.service.namespace: %s", strings.Join(errs, ", "))
	}
	if strings.ContainsAny(service.Path, "?#") {
		return nil, errors.New("clientConfig.service.path: neither query nor fragment is allowed")
	}
	host := service.Name + "." + service.Namespace + ".svc"
	if service.Port != nil {
		if *service.Port < 1 || *service.Port > 65535 {
			return nil, fmt.Errorf("clientConfig.service.port: %d is not from 1 to 65535", *service.Port)
		}
		host = net.JoinHostPort(host, strconv.Itoa(int(*service.Port)))
	}
	return &url.URL{Scheme: "https", Host: host, Path: service.Path}, nil
}

// HookURL returns the URL of a handler below base. handler is empty for hooks
// that are served once per extension.
func HookURL(base *url.URL, name hook.GroupVersionHook, handler string, timeout time.Duration) *url.URL {
	u := *base
	u.Path = path.Join("/", base.Path, hook.Path(name, handler))
	u.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	return &u
}
