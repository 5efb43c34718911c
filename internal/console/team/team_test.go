package team

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var env *testenv.Env

// account is the user that the console is for the API server.
const account = "system:serviceaccount:slipway-system:slipway-console"

func TestMain(m *testing.M) {
	scheme := func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), infrav1.AddToScheme(s), lifecyclev1.AddToScheme(s), runtimev1.AddToScheme(s), runtimev1alpha1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, scheme, func(e *testenv.Env) error {
		env = e
		return e.Grant(context.Background(), account, config.Console, "console/role.yaml", "console/changes_role.yaml")
	}))
}

// idp is a provider whose people sign in without being asked: upstream's test server with the two endpoints that it
// lacks.
type idp struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
	secret string

	mu sync.Mutex
	// claims of who signs in, over those that are right.
	claims map[string]any
	// codes that were given out.
	codes map[string]code
	// away has it answer nothing.
	away bool
}

// code is what a token is given for.
type code struct{ claims, challenge string }

func startProvider(t *testing.T) *idp {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{key: key, secret: "s3cret", codes: map[string]code{}}
	upstream := &oidctest.Server{Algorithms: []string{oidc.ES256}, PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.ES256}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/auth", p.authorize)
	mux.HandleFunc("/token", p.token)
	mux.Handle("/", upstream)
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.away {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	upstream.SetIssuer(p.server.URL)
	return p
}

func (p *idp) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	claims := map[string]any{
		"iss": p.server.URL, "aud": q.Get("client_id"), "sub": "ann", "nonce": q.Get("nonce"), "exp": time.Now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, p.claims)
	text, err := json.Marshal(claims)
	if err != nil || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	given := rand.Text()
	p.codes[given] = code{string(text), q.Get("code_challenge")}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {given}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther) //nolint:gosec // G710: as providers do
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	_, secret, basic := r.BasicAuth()
	if !basic {
		secret = r.FormValue("client_secret")
	}
	given, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if !known || secret != p.secret || base64.RawURLEncoding.EncodeToString(verifier[:]) != given.challenge {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"secret-in-an-answer"}`))
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "a", "token_type": "Bearer", "id_token": oidctest.SignIDToken(p.key, "k", oidc.ES256, given.claims),
	})
}

// as has somebody else sign in.
func (p *idp) as(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// team is a console that is served, and its provider.
type team struct {
	*Server
	provider *idp
	secret   string
}

func start(t *testing.T, mutate ...func(*Options)) *team {
	t.Helper()
	testenv.Skip(t)
	return startWith(t, env.User(t, account, "system:serviceaccounts", "system:serviceaccounts:slipway-system"), mutate...)
}

func startWith(t *testing.T, credential *rest.Config, mutate ...func(*Options)) *team {
	t.Helper()
	dir, provider := t.TempDir(), startProvider(t)
	web := httptest.NewUnstartedServer(nil)
	o := DefaultOptions()
	o.URL = "https://" + web.Listener.Addr().String()
	o.OIDC.IssuerURL, o.OIDC.ClientID, o.OIDC.UsernamePrefix, o.OIDC.GroupsClaim, o.OIDC.GroupsPrefix = provider.server.URL, "console", "-", "groups", "oidc:"
	o.OIDC.CAFile, o.OIDC.ClientSecretFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client-secret")
	write(t, o.OIDC.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.server.Certificate().Raw})))
	write(t, o.OIDC.ClientSecretFile, provider.secret+"\n")
	for _, m := range mutate {
		m(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := New(ctx, credential, func(c *rest.Config) (client.WithWatch, error) {
		return client.NewWithWatch(c, client.Options{Scheme: env.Scheme})
	}, o, logr.Discard())
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	web.Config.Handler = s
	web.StartTLS()
	t.Cleanup(func() {
		cancel()
		web.Close()
	})
	return &team{Server: s, provider: provider, secret: o.OIDC.ClientSecretFile}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// browser has cookies, follows redirects, and goes on where a page says so.
type browser struct {
	*http.Client
	t    *testing.T
	base string
}

func (c *team) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.provider.server.Certificate()) // httptest has one for all
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{&http.Client{Jar: jar, Transport: transport}, t, c.URL}
}

var goesOn = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)

func (b *browser) get(path string) (int, string) {
	b.t.Helper()
	return b.do(http.MethodGet, b.base+path, nil, nil)
}

func (b *browser) do(method, address string, form url.Values, headers map[string]string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if next := goesOn.FindSubmatch(body); next != nil {
		return b.get(strings.ReplaceAll(string(next[1]), "&amp;", "&"))
	}
	return response.StatusCode, string(body)
}

// csrf of the session.
func (b *browser) csrf() string {
	b.t.Helper()
	_, body := b.get("/")
	found := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(body)
	if found == nil {
		b.t.Fatalf("no form in %s", body)
	}
	return found[1]
}

// Each sees, and does, what they may themselves; what the credential of the console may do for them bounds it.
func TestRightsAreThoseOfTheUser(t *testing.T) {
	c := start(t, func(o *Options) { o.AllowChanges = true })
	namespace := env.Namespace(t)
	testenv.NewHost(t, env.Client, namespace, "h1", time.Now())
	view := []string{"get", "list", "watch"}
	for _, group := range []string{"oidc:operators", "oidc:viewers"} {
		verbs := view
		if group == "oidc:operators" {
			verbs = append(slices.Clone(view), "patch")
		}
		bindGroup(t, group, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, Verbs: verbs})
	}
	page := "/hosts/" + namespace + "/h1"

	c.provider.as(map[string]any{"sub": "vic", "groups": "viewers"})
	viewer := c.browser(t)
	if code, body := viewer.get(page + "?x=1&y=2"); code != http.StatusOK || !strings.Contains(body, "h1") || !strings.Contains(body, "vic") || !strings.Contains(body, "lacks patch hosts") {
		t.Errorf("a viewer: %d, %s", code, body)
	}
	if code, body := viewer.do(http.MethodPost, c.URL+page+"/do/cordon", form(t, viewer, "h1", namespace), nil); code != http.StatusForbidden {
		t.Errorf("a viewer cordons: %d, %s", code, body)
	}

	c.provider.as(map[string]any{"sub": "ann", "groups": []string{"operators"}})
	operator := c.browser(t)
	if code, body := operator.get(page); code != http.StatusOK || strings.Contains(body, "lacks patch hosts") {
		t.Errorf("an operator: %d, %s", code, body)
	}
	if code, body := operator.do(http.MethodPost, c.URL+page+"/do/cordon", form(t, operator, "h1", namespace), nil); code != http.StatusOK {
		t.Errorf("an operator cordons: %d, %s", code, body)
	}
	testenv.Object(t, env.Client, &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h1"}}, "cordoned", func(h *infrav1.Host) string {
		if h.Spec.Unschedulable == nil || !*h.Spec.Unschedulable {
			return "it is not cordoned"
		}
		return ""
	})

	c.provider.as(map[string]any{"sub": "nobody"})
	if code, body := c.browser(t).get(page); code == http.StatusOK || strings.Contains(body, "AMD") {
		t.Errorf("somebody without rights: %d, %s", code, body)
	}
}

// form of an action on a host.
func form(t *testing.T, b *browser, host, namespace string) url.Values {
	t.Helper()
	h := &infrav1.Host{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: host}, h); err != nil {
		t.Fatal(err)
	}
	return url.Values{"csrf": {b.csrf()}, "uid": {string(h.UID)}, "reason": {"a test"}}
}

// bindGroup gives a group a rule, and returns once the authorizer knows.
func bindGroup(t *testing.T, group string, rule rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: []rbacv1.PolicyRule{rule}}
	if err := env.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
	if err := env.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = env.Client.Delete(context.WithoutCancel(t.Context()), binding)
		_ = env.Client.Delete(context.WithoutCancel(t.Context()), role)
	})
	poll.Until(t, "the authorizer knows of "+group, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{group}, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[len(rule.Verbs)-1],
		}}}
		if err := env.Client.Create(t.Context(), review); err != nil || review.Status.Allowed {
			return err
		}
		return errors.New("it does not yet")
	})
}

// What the credential of the console alone can do: nothing of itself, and as anybody, whatever their rights, no more than its
// roles say. So whoever steals it reads no Secret.
func TestCredentialIsBounded(t *testing.T) {
	testenv.Skip(t)
	bindGroup(t, "admins", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	own := env.User(t, account, "system:serviceaccounts")
	as := func(groups ...string) *rest.Config {
		config := rest.CopyConfig(own)
		config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: groups}
		return config
	}
	asAdmin := as("admins")
	for name, tc := range map[string]struct {
		config *rest.Config
		do     func(context.Context, client.Client) error
		want   bool
	}{
		"itself lists hosts":             {own, list(&infrav1.HostList{}), false},
		"an administrator lists hosts":   {asAdmin, list(&infrav1.HostList{}), true},
		"an administrator reads Secrets": {asAdmin, list(&corev1.SecretList{}), false},
		"an administrator makes roles": {asAdmin, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}})
		}, false},
		"an administrator deletes clusters": {asAdmin, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(tc.config, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
			if err != nil {
				t.Fatal(err)
			}
			err = tc.do(t.Context(), c)
			if tc.want && err != nil || !tc.want && !apierrors.IsForbidden(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func list(l client.ObjectList) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.List(ctx, l) }
}

// The role of the console has all that its pages read: to an administrator nothing is hidden.
func TestRoleHasWhatPagesRead(t *testing.T) {
	c := start(t)
	bindGroup(t, "oidc:admins", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	namespace := env.Namespace(t)
	testenv.NewHost(t, env.Client, namespace, "h1", time.Now())
	cluster := testenv.NewCluster(t, env.Client, namespace)
	c.provider.as(map[string]any{"groups": []string{"admins"}})
	admin := c.browser(t)
	for _, path := range []string{"/", "/hosts", "/hosts/" + namespace + "/h1", "/clusters", "/clusters/" + namespace + "/" + cluster.Name, "/versions", "/decisions", "/activity", "/find?q=h1"} {
		code, body := admin.get(path)
		if code != http.StatusOK || strings.Contains(body, "Some objects are hidden") || strings.Contains(body, "impersonate") {
			t.Errorf("%s: %d, %s", path, code, body)
		}
	}
	if _, body := admin.get("/versions"); !strings.Contains(body, "v1.") {
		t.Errorf("the version of the API server is not known: %s", body)
	}
}

// Without --allow-changes nobody changes anything, whatever they may do, and is told.
func TestReadOnly(t *testing.T) {
	c := start(t)
	bindGroup(t, "oidc:admins", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	namespace := env.Namespace(t)
	testenv.NewHost(t, env.Client, namespace, "h1", time.Now())
	c.provider.as(map[string]any{"groups": []string{"admins"}})
	b := c.browser(t)
	page := "/hosts/" + namespace + "/h1"
	if code, body := b.get(page); code != http.StatusOK || strings.Contains(body, "Cordon") {
		t.Errorf("%d, %s", code, body)
	}
	if code, body := b.do(http.MethodPost, c.URL+page+"/do/cordon", form(t, b, "h1", namespace), nil); code != http.StatusForbidden || !strings.Contains(body, "--allow-changes") {
		t.Errorf("%d, %s", code, body)
	}
}

// Who is not signed in, or not any more, sees and does nothing, and a page leads to the provider.
func TestSessions(t *testing.T) {
	c := start(t)
	now := time.Now()
	c.sessions.now = func() time.Time { return now }
	b := c.browser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]int{"/": http.StatusSeeOther, "/static/console.css": http.StatusUnauthorized, "/live/": http.StatusUnauthorized, "/signout": http.StatusSeeOther} {
		if code, _ := b.get(path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	if code, _ := b.do(http.MethodPost, c.URL+"/hosts/a/b/do/cordon", url.Values{}, nil); code != http.StatusUnauthorized {
		t.Errorf("a form of nobody: %d", code)
	}

	b.CheckRedirect = nil
	if code, body := b.get("/"); code != http.StatusOK || !strings.Contains(body, "Overview") {
		t.Fatalf("%d, %s", code, body)
	}
	csrf := b.csrf()
	if code, _ := b.do(http.MethodPost, c.URL+"/signout", url.Values{"csrf": {"x"}}, nil); code != http.StatusForbidden {
		t.Errorf("signed out by another's form: %d", code)
	}
	for header, want := range map[string]int{"same-origin": http.StatusOK, "cross-site": http.StatusForbidden, "same-site": http.StatusForbidden} {
		if code, _ := b.do(http.MethodGet, c.URL+"/static/console.css", nil, map[string]string{"Sec-Fetch-Site": header}); code != want {
			t.Errorf("asked for by a page that is %s: %d", header, code)
		}
	}
	link := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	if code, body := b.do(http.MethodGet, c.URL+"/hosts?q=a&racks=1", nil, link); code != http.StatusOK || !strings.Contains(body, `value="a"`) {
		t.Errorf("by a link of a chat: %d, %s", code, body)
	}
	if count(c.sessions) != 1 {
		t.Errorf("%d sessions of one browser", count(c.sessions))
	}
	opened := c.sessions.open[cookieOf(t, b)]
	if code, body := b.do(http.MethodPost, c.URL+"/signout", url.Values{"csrf": {csrf}}, nil); code != http.StatusOK || !strings.Contains(body, "signed out") {
		t.Errorf("%d, %s", code, body)
	}
	<-opened.closed.Done()

	b.get("/")
	opened = c.sessions.open[cookieOf(t, b)]
	now = now.Add(c.SessionDuration)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if code, _ := b.get("/"); code != http.StatusSeeOther {
		t.Errorf("after its time: %d", code)
	}
	<-opened.closed.Done()
}

func count(s *sessions) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func cookieOf(t *testing.T, b *browser) string {
	t.Helper()
	base, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range b.Jar.Cookies(base) {
		if cookie.Name == sessionCookie {
			return cookie.Value
		}
	}
	t.Fatal("the browser has no session")
	return ""
}

// A sign-in that did not begin in the same browser, or whose token is not right, opens nothing.
func TestRefusedSignIns(t *testing.T) {
	c := start(t)
	for name, tc := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"other nonce":          {map[string]any{"nonce": "x"}, "of another sign-in"},
		"other client":         {map[string]any{"aud": "another"}, "expected audience"},
		"other issuer":         {map[string]any{"iss": "https://other.example.com"}, "issued by a different provider"},
		"expired":              {map[string]any{"exp": 1}, "expired"},
		"nobody":               {map[string]any{"sub": ""}, "--oidc-username-claim"},
		"no text":              {map[string]any{"sub": 7}, "cannot unmarshal number"},
		"somebody of the API":  {map[string]any{"sub": "system:admin"}, "--oidc-username-prefix"},
		"groups that are none": {map[string]any{"groups": map[string]any{"a": 1}}, "neither a text nor a list"},
	} {
		t.Run(name, func(t *testing.T) {
			c.provider.as(tc.claims)
			if code, body := c.browser(t).get("/"); code != http.StatusForbidden || !strings.Contains(body, tc.want) {
				t.Errorf("%d, %s", code, body)
			}
		})
	}
	c.provider.as(nil)
	t.Run("somebody else's", func(t *testing.T) {
		victim, attacker := c.browser(t), c.browser(t)
		attacker.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == callbackPath {
				return http.ErrUseLastResponse
			}
			return nil
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := attacker.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		theirs := response.Header.Get("Location")
		if code, body := victim.do(http.MethodGet, theirs, nil, nil); code != http.StatusBadRequest || !strings.Contains(body, "not begun in this browser") {
			t.Errorf("%d, %s", code, body)
		}
		// Nor while a sign-in of the victim is under way.
		victim.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == "/auth" {
				return http.ErrUseLastResponse
			}
			return nil
		}
		victim.get("/")
		if code, body := victim.do(http.MethodGet, theirs, nil, nil); code != http.StatusBadRequest || !strings.Contains(body, "not begun in this browser") {
			t.Errorf("with a sign-in of its own: %d, %s", code, body)
		}
	})
	t.Run("the provider refuses", func(t *testing.T) {
		b := c.browser(t)
		write(t, c.secret, "wrong")
		code, body := b.get("/")
		if code != http.StatusForbidden || !strings.Contains(body, "refuses the code: invalid_grant") || strings.Contains(body, "secret-in-an-answer") {
			t.Errorf("%d, %s", code, body)
		}
		// The secret is rotated without a restart.
		write(t, c.secret, c.provider.secret)
		if code, body := b.get("/"); code != http.StatusOK {
			t.Errorf("%d, %s", code, body)
		}
	})
	if n := count(c.sessions); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// A provider that is away keeps nobody out who has a session, and is asked again.
func TestProviderIsAway(t *testing.T) {
	c := start(t)
	away := func(is bool) {
		c.provider.mu.Lock()
		defer c.provider.mu.Unlock()
		c.provider.away = is
	}
	away(true)
	b := c.browser(t)
	if code, body := b.get("/"); code != http.StatusBadGateway || !strings.Contains(body, "provider cannot be asked") {
		t.Errorf("%d, %s", code, body)
	}
	away(false)
	c.Server.provider.asked = time.Time{}
	if code, body := b.get("/"); code != http.StatusOK {
		t.Errorf("%d, %s", code, body)
	}
	away(true)
	if code, body := b.get("/hosts"); code != http.StatusOK {
		t.Errorf("%d, %s", code, body)
	}
}

// Names and groups are those that kube-apiserver makes of the same token with the same flags.
func TestUser(t *testing.T) {
	for name, tc := range map[string]struct {
		oidc   OIDC
		claims string
		want   string
		groups []string
		err    string
	}{
		"sub":                  {OIDC{UsernameClaim: "sub"}, `{"sub":"ann"}`, "https://idp#ann", nil, ""},
		"no prefix":            {OIDC{UsernameClaim: "sub", UsernamePrefix: "-"}, `{"sub":"ann"}`, "ann", nil, ""},
		"prefix":               {OIDC{UsernameClaim: "sub", UsernamePrefix: "oidc:"}, `{"sub":"ann"}`, "oidc:ann", nil, ""},
		"email":                {OIDC{UsernameClaim: "email"}, `{"email":"a@example.com","email_verified":true}`, "a@example.com", nil, ""},
		"email, not verified":  {OIDC{UsernameClaim: "email"}, `{"email":"a@example.com","email_verified":false}`, "", nil, "not verified"},
		"email, a text":        {OIDC{UsernameClaim: "email"}, `{"email":"a@example.com","email_verified":"true"}`, "", nil, "not verified"},
		"email, not said":      {OIDC{UsernameClaim: "email"}, `{"email":"a@example.com"}`, "a@example.com", nil, ""},
		"group":                {OIDC{UsernameClaim: "sub", UsernamePrefix: "-", GroupsClaim: "g"}, `{"sub":"a","g":"one"}`, "a", []string{"one"}, ""},
		"groups of Kubernetes": {OIDC{UsernameClaim: "sub", UsernamePrefix: "-", GroupsClaim: "g"}, `{"sub":"a","g":["system:masters","two","","system:nodes"]}`, "a", []string{"two"}, ""},
		"groups, prefix":       {OIDC{UsernameClaim: "sub", UsernamePrefix: "-", GroupsClaim: "g", GroupsPrefix: "oidc:"}, `{"sub":"a","g":["system:masters"]}`, "a", []string{"oidc:system:masters"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]json.RawMessage{}
			if err := json.Unmarshal([]byte(tc.claims), &claims); err != nil {
				t.Fatal(err)
			}
			tc.oidc.IssuerURL = "https://idp"
			got, err := (&provider{OIDC: tc.oidc}).user(claims)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err != nil || got.name != tc.want || !slices.Equal(got.groups, tc.groups) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A console that anybody can have remember things remembers a bounded number of them.
func TestSessionsAreBounded(t *testing.T) {
	s := newSessions()
	now := time.Unix(0, 0)
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	closed := map[string]bool{}
	open := func(name, user string) string {
		o := &session{ends: time.Unix(1e6, 0), close: func() { closed[name] = true }}
		o.user.name = user
		return s.add(o)
	}
	first := open("first", "ann")
	for range maxOfUser - 1 {
		open("another", "ann")
	}
	s.of(first)
	open("one more", "ann")
	if !closed["another"] || closed["first"] || count(s) != maxOfUser {
		t.Errorf("%v, %d", closed, count(s))
	}
	for range maxSessions {
		open("b", rand.Text())
	}
	if count(s) != maxSessions || !closed["first"] {
		t.Errorf("%v, %d", closed, count(s))
	}
	kept := s.await(&attempt{})
	for range maxAttempts {
		s.await(&attempt{})
	}
	if s.take(kept) != nil || len(s.attempts) > maxAttempts {
		t.Errorf("%d attempts", len(s.attempts))
	}
	last := s.await(&attempt{})
	if s.take(last) == nil || s.take(last) != nil {
		t.Error("an attempt is used once")
	}
	late := s.await(&attempt{})
	now = now.Add(signInPatience)
	if s.take(late) != nil {
		t.Error("an attempt ends")
	}
}

// No sign-in leads out of the console.
func TestLocal(t *testing.T) {
	for path, want := range map[string]string{
		"/hosts?q=a": "/hosts?q=a", "": "/", "//evil.example.com": "/", "https://evil.example.com": "/", `/\\evil.example.com`: "/", "evil": "/", "javascript:alert(1)": "/",
		"/\tx": "/", "///evil.example.com": "/", "/%2f/evil": "/%2f/evil",
	} {
		if got := local(path); got != want {
			t.Errorf("%q leads to %q, want %q", path, got, want)
		}
	}
}

// The Deployment of a release starts once its two variables without a default are set.
func TestDeployment(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "console", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	processor := yamlprocessor.NewSimpleProcessor()
	set := map[string]string{"SLIPWAY_CONSOLE_URL": "https://slipway.example.com", "SLIPWAY_CONSOLE_OIDC_ISSUER_URL": "https://idp.example.com"}
	rendered, err := processor.Process(data, func(name string) (string, error) {
		if value, is := set[name]; is {
			return value, nil
		}
		return "", errors.New("not set")
	})
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(rendered, deployment); err != nil {
		t.Fatal(err)
	}
	o, flags := DefaultOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.BindFlags(flags)
	args := deployment.Spec.Template.Spec.Containers[0].Args
	if err := flags.Parse(slices.DeleteFunc(args, func(arg string) bool { return arg == "--logging-format=json" })); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil || o.AllowChanges || o.OIDC.UsernameClaim != "sub" || o.OIDC.GroupsClaim != "groups" {
		t.Errorf("%v, %+v", err, o)
	}
}

func TestValidate(t *testing.T) {
	good := func() Options {
		o := DefaultOptions()
		o.URL, o.OIDC.IssuerURL, o.OIDC.ClientID = "https://slipway.example.com", "https://idp.example.com/realms/x", "console"
		return o
	}
	o := good()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	for flag, change := range map[string]func(*Options){
		"url":                  func(o *Options) { o.URL = "http://slipway.example.com" },
		"url ":                 func(o *Options) { o.URL = "https://slipway.example.com/console" },
		"url  ":                func(o *Options) { o.URL = "" },
		"oidc-issuer-url":      func(o *Options) { o.OIDC.IssuerURL = "http://idp" },
		"oidc-client-id":       func(o *Options) { o.OIDC.ClientID = "" },
		"oidc-username-claim":  func(o *Options) { o.OIDC.UsernameClaim = "" },
		"oidc-username-prefix": func(o *Options) { o.OIDC.UsernamePrefix = "system:" },
		"oidc-groups-prefix":   func(o *Options) { o.OIDC.GroupsPrefix = "system:x:" },
		"session-duration":     func(o *Options) { o.SessionDuration = 0 },
	} {
		o := good()
		change(&o)
		var wrong *OptionsError
		if err := o.Validate(); !errors.As(err, &wrong) || wrong.Flag != strings.TrimSpace(flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
