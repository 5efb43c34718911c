// Package endpoint reads the URL of a webhook step. Admission and the executor share
// it, so that what one accepts the other can call.
//
// It is pure and imports nothing of this repository.
package endpoint

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Parse returns the URL of an endpoint, or why it cannot be one. The error does not
// tell the URL.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "https":
		return nil, errors.New("must begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("must have a host")
	case u.User != nil:
		return nil, errors.New("must not have a user: calls are signed")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("must not have a fragment: it is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("must have a port from 1 to 65535, or none")
		}
	}
	return u, nil
}

// Host is what may be told of a URL: its path and its query may be secrets, as those of
// chat services are.
func Host(u *url.URL) string { return u.Scheme + "://" + u.Host }
