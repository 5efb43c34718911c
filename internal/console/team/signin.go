package team

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/text"
)

// systemPrefix begins the names of Kubernetes' own users and groups. No provider may give them.
const systemPrefix = "system:"

const (
	// providerPatience is how long the provider may take to answer the console.
	providerPatience = 15 * time.Second
	// providerPause is after what time one that did not is asked again: all who sign in wait for the one answer.
	providerPause = 5 * time.Second
)

// user of Kubernetes.
type user struct {
	name   string
	groups []string
}

// provider signs people in. It is looked up when somebody first does, and again while that fails: the console starts
// without it.
type provider struct {
	OIDC
	redirect string
	client   *http.Client

	mu    sync.Mutex
	found *oidc.Provider
	// away is why it was not found, and asked when.
	away  error
	asked time.Time
}

func newProvider(o OIDC, redirect string) (*provider, error) {
	client, err := rest.HTTPClientFor(&rest.Config{Host: o.IssuerURL, TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile}, Timeout: providerPatience})
	if err != nil {
		return nil, &OptionsError{"oidc-ca-file", err.Error()}
	}
	return &provider{OIDC: o, redirect: redirect, client: client}, nil
}

// context has requests to the provider go by the console's client.
func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || p.away != nil && time.Since(p.asked) < providerPause {
		return p.found, p.away
	}
	// Its keys are fetched with this context for as long as the program runs.
	found, err := oidc.NewProvider(p.context(context.WithoutCancel(ctx)), p.IssuerURL)
	if p.found, p.away, p.asked = found, err, time.Now(); err != nil {
		p.away = fmt.Errorf("ask %s what it is: %w", p.IssuerURL, err)
	}
	return p.found, p.away
}

func (p *provider) config(found *oidc.Provider) (*oauth2.Config, error) {
	secret := ""
	if p.ClientSecretFile != "" {
		data, err := os.ReadFile(p.ClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("read the secret of the client: %w", err)
		}
		secret = strings.TrimSpace(string(data))
	}
	var told struct {
		Scopes []string `json:"scopes_supported"` //nolint:tagliatelle // of OpenID Connect Discovery
	}
	if err := found.Claims(&told); err != nil {
		return nil, fmt.Errorf("read what %s says of itself: %w", p.IssuerURL, err)
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range []string{"email", "profile", "groups"} {
		if slices.Contains(told.Scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, Endpoint: found.Endpoint(), RedirectURL: p.redirect, Scopes: scopes}, nil
}

// attempt of a browser to sign in, which has its name in a cookie.
type attempt struct {
	state, nonce, verifier string
	// next is the path that it came from.
	next string
	ends time.Time
}

// begin returns an attempt, and where the provider asks who it is.
func (p *provider) begin(ctx context.Context, next string) (*attempt, string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, "", err
	}
	config, err := p.config(found)
	if err != nil {
		return nil, "", err
	}
	a := &attempt{state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), next: local(next)}
	return a, config.AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)), nil
}

// local is a path of the console; the first page for whatever leads elsewhere.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\x00\r\n\t") {
		return "/"
	}
	return path
}

// end exchanges the code that the provider gave for a user.
func (p *provider) end(ctx context.Context, a *attempt, code string) (*user, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	config, err := p.config(found)
	if err != nil {
		return nil, err
	}
	ctx = p.context(ctx)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) { // its text has the whole answer
			return nil, fmt.Errorf("%s refuses the code: %s", p.IssuerURL, text.Printable(refused.ErrorCode))
		}
		return nil, fmt.Errorf("exchange the code at %s: %w", p.IssuerURL, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, fmt.Errorf("%s answers without an ID token", p.IssuerURL)
	}
	verified, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	if verified.Nonce != a.nonce {
		return nil, errors.New("the ID token is of another sign-in")
	}
	claims := map[string]json.RawMessage{}
	if err := verified.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read the ID token: %w", err)
	}
	return p.user(claims)
}

// user reads the claims as kube-apiserver does.
func (p *provider) user(claims map[string]json.RawMessage) (*user, error) {
	var name string
	if err := json.Unmarshal(claims[p.UsernameClaim], &name); err != nil || name == "" {
		return nil, fmt.Errorf("the ID token has no claim %s that names somebody: choose another --oidc-username-claim, or have the provider set it", p.UsernameClaim)
	}
	if verified, told := claims["email_verified"]; p.UsernameClaim == "email" && told && string(verified) != "true" {
		return nil, errors.New("the provider has not verified this e-mail address")
	}
	switch prefix := p.UsernamePrefix; {
	case prefix == "-", prefix == "" && p.UsernameClaim == "email":
	case prefix == "":
		name = p.IssuerURL + "#" + name
	default:
		name = prefix + name
	}
	if strings.HasPrefix(name, systemPrefix) {
		return nil, fmt.Errorf("the provider names somebody of Kubernetes itself, with %s: set --oidc-username-prefix", systemPrefix)
	}
	found := &user{name: name}
	if p.GroupsClaim == "" || claims[p.GroupsClaim] == nil {
		return found, nil
	}
	var groups []string
	if err := json.Unmarshal(claims[p.GroupsClaim], &groups); err != nil {
		var one string
		if json.Unmarshal(claims[p.GroupsClaim], &one) != nil {
			return nil, fmt.Errorf("the claim %s of the ID token is neither a text nor a list of texts", p.GroupsClaim)
		}
		groups = []string{one}
	}
	for _, group := range groups {
		// A group such as system:masters is nobody's to give.
		if group = p.GroupsPrefix + group; group != "" && !strings.HasPrefix(group, systemPrefix) {
			found.groups = append(found.groups, group)
		}
	}
	return found, nil
}
