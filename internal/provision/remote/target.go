package remote

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// target is where to log in, and as whom.
type target struct{ user, host, port string }

// parse reads [user@]address[:port]; an IPv6 address with a port stands in brackets.
func parse(text, user string) (target, error) {
	t := target{user: user, port: "22"}
	rest := text
	if at := strings.LastIndex(text, "@"); at >= 0 {
		t.user, rest = text[:at], text[at+1:]
	}
	t.host = rest
	if host, port, err := net.SplitHostPort(rest); err == nil {
		t.host, t.port = host, port
	} else if strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") {
		t.host = rest[1 : len(rest)-1]
	}
	var errs []error
	if n, err := strconv.ParseUint(t.port, 10, 16); err != nil || n == 0 {
		errs = append(errs, fmt.Errorf("%q is no port", t.port))
	}
	if t.host == "" || strings.ContainsAny(t.host, " /\\'\"`$;&|<>*?()[]{}!#~\n\r\t") || strings.Count(t.host, ":") == 1 || strings.HasPrefix(t.host, "-") {
		errs = append(errs, fmt.Errorf("%q is no name or address", t.host))
	}
	if t.user == "" || strings.ContainsAny(t.user, " '\"`$;&|<>\n\r\t") {
		errs = append(errs, fmt.Errorf("%q is no user", t.user))
	}
	if err := errors.Join(errs...); err != nil {
		return target{}, fmt.Errorf("%q: want [user@]address[:port]: %w", text, err)
	}
	return t, nil
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// Normalize returns the one form of [user@]address[:port], so that equal ones are equal.
func Normalize(text, user string) (string, error) {
	t, err := parse(text, user)
	return t.user + "@" + t.address(), err
}
