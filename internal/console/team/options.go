package team

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Bounds of Options.SessionDuration.
const (
	minSession = time.Minute
	maxSession = 24 * time.Hour
)

// Options of the program. DefaultOptions has what the flags default to.
type Options struct {
	// URL is where browsers reach the console: https, a host, and no path.
	URL string
	// Address serves it over TLS, with tls.crt and tls.key of CertDir, which are read again when they change.
	Address, CertDir string
	// Name of the management cluster, for the title of pages; by default the host of URL.
	Name string
	// Namespace is the only one that is shown; empty for all.
	Namespace string
	// AllowChanges has the console do what its users may do; without it nobody changes anything by it.
	AllowChanges bool
	// SessionDuration is after what time somebody signs in again. Until then, groups that the provider takes away stay.
	SessionDuration time.Duration

	// OIDC says who signs in.
	OIDC OIDC

	// MetricsAddress serves metrics over HTTPS to clients that the API server lets get them; "0" turns them off.
	MetricsAddress string
	// ProbeAddress serves /healthz and /readyz; "0" turns them off.
	ProbeAddress string
}

// OIDC is an OpenID Connect provider, and what of its ID tokens makes a user of Kubernetes. Names and meaning are those of
// kube-apiserver's flags, so that one RoleBinding holds here and there.
type OIDC struct {
	// IssuerURL of the provider, https.
	IssuerURL string
	// ClientID is what the provider knows the console as.
	ClientID string
	// ClientSecretFile holds the client's secret; it is read at each sign-in. Empty for a public client.
	ClientSecretFile string
	// CAFile holds the authorities of the provider's certificate; by default those of the system.
	CAFile string
	// UsernameClaim and GroupsClaim are the claims that name a user, and their groups.
	UsernameClaim, GroupsClaim string
	// UsernamePrefix and GroupsPrefix are put before them. Without a UsernamePrefix, names of other claims than email get the
	// issuer's URL and "#"; "-" puts nothing before them.
	UsernamePrefix, GroupsPrefix string
}

// DefaultOptions returns the options of a program that is started without flags.
func DefaultOptions() Options {
	return Options{
		Address: ":9446", CertDir: "/var/run/slipway/serving-certs", SessionDuration: time.Hour,
		OIDC:           OIDC{UsernameClaim: "sub"},
		MetricsAddress: ":8443", ProbeAddress: ":9440",
	}
}

// BindFlags adds the flags of the options.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.URL, "url", o.URL, "where browsers reach the console: https, a host, and no path. The provider must know URL/callback as a redirect URI. Required")
	fs.StringVar(&o.Address, "address", o.Address, "address to listen on, with TLS")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir, "directory with tls.crt and tls.key, which are read again when they change")
	fs.StringVar(&o.Name, "name", o.Name, "name of the management cluster, for the title of pages; the host of --url when empty")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "show only this namespace, for users with rights in no other; all when empty")
	fs.BoolVar(&o.AllowChanges, "allow-changes", o.AllowChanges, "do what users request and may do themselves. The console needs the role slipway-console-changes for it. Without it, it is read-only")
	fs.DurationVar(&o.SessionDuration, "session-duration", o.SessionDuration, fmt.Sprintf("after what time somebody signs in again, %s to %s. Groups that the provider takes away stay until then", minSession, maxSession))
	fs.StringVar(&o.OIDC.IssuerURL, "oidc-issuer-url", o.OIDC.IssuerURL, "URL of the OpenID Connect provider, https. Required")
	fs.StringVar(&o.OIDC.ClientID, "oidc-client-id", o.OIDC.ClientID, "what the provider knows the console as. Required")
	fs.StringVar(&o.OIDC.ClientSecretFile, "oidc-client-secret-file", o.OIDC.ClientSecretFile, "file with the client's secret, which is read at each sign-in; none for a public client")
	fs.StringVar(&o.OIDC.CAFile, "oidc-ca-file", o.OIDC.CAFile, "file with the certificate authorities of the provider; those of the system when empty")
	fs.StringVar(&o.OIDC.UsernameClaim, "oidc-username-claim", o.OIDC.UsernameClaim, "claim of the ID token that names the user, as of kube-apiserver")
	fs.StringVar(&o.OIDC.UsernamePrefix, "oidc-username-prefix", o.OIDC.UsernamePrefix, "what is put before the name. When empty, names of other claims than email get the issuer's URL and a #; - puts nothing before them")
	fs.StringVar(&o.OIDC.GroupsClaim, "oidc-groups-claim", o.OIDC.GroupsClaim, "claim of the ID token that names the groups, a text or a list; no groups when empty")
	fs.StringVar(&o.OIDC.GroupsPrefix, "oidc-groups-prefix", o.OIDC.GroupsPrefix, "what is put before the names of groups")
	fs.StringVar(&o.MetricsAddress, "diagnostics-address", o.MetricsAddress, "address of the metrics, over HTTPS for clients that the API server lets get them; 0 turns them off")
	fs.StringVar(&o.ProbeAddress, "health-addr", o.ProbeAddress, "address of /healthz and /readyz; 0 turns them off")
}

// OptionsError names the flag that has no sound value.
type OptionsError struct{ Flag, Why string }

// Error implements error.
func (e *OptionsError) Error() string { return "--" + e.Flag + ": " + e.Why }

// Validate says all that is wrong.
func (o *Options) Validate() error {
	var errs []error
	wrong := func(flag, why string) { errs = append(errs, &OptionsError{flag, why}) }
	if u, err := url.Parse(o.URL); err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		wrong("url", fmt.Sprintf("%q is not an address of browsers: want https and a host alone, such as https://slipway.example.com", o.URL))
	}
	if u, err := url.Parse(o.OIDC.IssuerURL); err != nil || u.Scheme != "https" || u.Hostname() == "" {
		wrong("oidc-issuer-url", fmt.Sprintf("%q is not the URL of an issuer: want https, as the issuer's tokens have it", o.OIDC.IssuerURL))
	}
	if o.OIDC.ClientID == "" {
		wrong("oidc-client-id", "want the name under which the provider knows the console")
	}
	if o.OIDC.UsernameClaim == "" {
		wrong("oidc-username-claim", "want a claim, such as sub or email")
	}
	for flag, prefix := range map[string]string{"oidc-username-prefix": o.OIDC.UsernamePrefix, "oidc-groups-prefix": o.OIDC.GroupsPrefix} {
		if strings.HasPrefix(prefix, systemPrefix) {
			wrong(flag, "names that begin with "+systemPrefix+" are those of Kubernetes itself")
		}
	}
	if o.SessionDuration < minSession || o.SessionDuration > maxSession {
		wrong("session-duration", fmt.Sprintf("want %s to %s", minSession, maxSession))
	}
	return errors.Join(errs...)
}
