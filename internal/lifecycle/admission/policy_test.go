package admission_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

const jobSpec = `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}`

func job(spec string) *lifecyclev1.JobStep {
	return &lifecyclev1.JobStep{Spec: runtime.RawExtension{Raw: []byte(spec)}}
}

// newPolicy makes a policy, not stored, with steps at AfterControlPlaneInitialized.
func newPolicy(namespace, name string, steps ...lifecyclev1.Step) *lifecyclev1.LifecyclePolicy {
	return &lifecyclev1.LifecyclePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       lifecyclev1.LifecyclePolicySpec{Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.AfterControlPlaneInitialized, Steps: steps}}},
	}
}

// TestBadPoliciesNameTheField has each kind of bad input refused by the API server,
// with the path of its field and what would be right.
func TestBadPoliciesNameTheField(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	const first = "spec.hooks[0].steps[0]."
	for name, c := range map[string]struct {
		step   lifecyclev1.Step
		change func(*lifecyclev1.LifecyclePolicy)
		want   []string
	}{
		"no kind":        {step: lifecyclev1.Step{}, want: []string{"exactly one of expression, window"}},
		"two kinds":      {step: lifecyclev1.Step{Approval: &lifecyclev1.ApprovalStep{}, Window: &lifecyclev1.WindowStep{Schedule: "@daily", DurationSeconds: 60}}, want: []string{"exactly one of expression, window"}},
		"unknown hook":   {step: approval, change: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Hooks[0].Hook = "BeforeLunch" }, want: []string{"spec.hooks[0].hook", "BeforeLunch"}},
		"selector":       {step: approval, change: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.ClusterSelector = badSelector() }, want: []string{"spec.clusterSelector.matchExpressions[0].operator"}},
		"condition":      {step: approval, change: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.MatchCondition = "cluster.metadata.name ==" }, want: []string{"spec.matchCondition", "Syntax error"}},
		"condition type": {step: approval, change: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.MatchCondition = "'yes'" }, want: []string{"spec.matchCondition"}},
		"condition over hosts": {step: approval, change: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.MatchCondition = "hosts.size() > 0" },
			want: []string{"spec.matchCondition", "undeclared reference to 'hosts'"}},
		"expression":       {step: expression("hosts.siz() > 0"), want: []string{first + "expression.expression", "siz"}},
		"expensive":        {step: expression("hosts.all(a, hosts.all(b, hosts.all(c, hosts.all(d, a.metadata.name + b.metadata.name == c.metadata.name + d.metadata.name))))"), want: []string{first + "expression.expression", "limit"}},
		"request field":    {step: expression("request.nonsense == 'a'"), want: []string{first + "expression.expression", "undefined field 'nonsense'"}},
		"cron":             {step: window("61 * * * *", "", 60), want: []string{first + "window.schedule", "61"}},
		"cron date":        {step: window("0 0 30 2 *", "", 60), want: []string{first + "window.schedule", "never open"}},
		"cron interval":    {step: window("@every 5m", "", 60), want: []string{first + "window.schedule", "@every"}},
		"cron zone":        {step: window("TZ=Etc/UTC 0 0 * * *", "", 60), want: []string{first + "window.schedule", "timeZone"}},
		"zone":             {step: window("@daily", "Mars/Olympus", 60), want: []string{first + "window.timeZone", "Mars/Olympus", "tz database"}},
		"duration":         {step: window("@daily", "", 5), want: []string{first + "window.durationSeconds", "60"}},
		"retry default":    {step: lifecyclev1.Step{Approval: &lifecyclev1.ApprovalStep{}, Retry: &lifecyclev1.RetryPolicy{MaxBackoffSeconds: ptr.To[int32](4)}}, want: []string{first + "retry.maxBackoffSeconds", "less than backoffSeconds"}},
		"retry":            {step: lifecyclev1.Step{Approval: &lifecyclev1.ApprovalStep{}, Retry: &lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](9), MaxBackoffSeconds: ptr.To[int32](8)}}, want: []string{first + "retry.maxBackoffSeconds", "less than backoffSeconds"}},
		"source kind":      {step: source("Pod", "a", ""), want: []string{first + "apply.sources[0].kind", "Pod"}},
		"source name":      {step: source("ConfigMap", "A_b", ""), want: []string{first + "apply.sources[0].name", "RFC 1123"}},
		"source key":       {step: source("ConfigMap", "a", "a/b"), want: []string{first + "apply.sources[0].key"}},
		"same source":      {step: lifecyclev1.Step{Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "a"}, {Kind: "ConfigMap", Name: "a"}}}}, want: []string{first + "apply.sources[1]", "Duplicate"}},
		"apply at create":  {step: source("ConfigMap", "a", ""), change: atCreate, want: []string{first + "apply", "no workload cluster yet", "AfterControlPlaneInitialized"}},
		"wait at create":   {step: wait(func(*lifecyclev1.WaitStep) {}), change: atCreate, want: []string{first + "wait", "no workload cluster yet"}},
		"export at create": {step: export("v1", "ConfigMap"), change: atCreate, want: []string{first + "export", "no workload cluster yet"}},
		"job at create":    {step: lifecyclev1.Step{Job: job(jobSpec)}, change: atCreate, want: []string{first + "job.target", "Management"}},
		"job field":        {step: lifecyclev1.Step{Job: job(`{"backofLimit":1,` + jobSpec[1:])}, want: []string{first + "job.spec", `unknown field "backofLimit"`}},
		"job restarts":     {step: lifecyclev1.Step{Job: job(strings.Replace(jobSpec, "Never", "Always", 1))}, want: []string{first + "job.spec.template.spec.restartPolicy", "Always"}},
		"job ttl":          {step: lifecyclev1.Step{Job: job(`{"ttlSecondsAfterFinished":1,` + jobSpec[1:])}, want: []string{first + "job.spec.ttlSecondsAfterFinished", "result is recorded"}},
		"job container":    {step: lifecyclev1.Step{Job: job(strings.Replace(jobSpec, `"name":"a"`, `"name":"A_"`, 1))}, want: []string{first + "job.spec.template.spec.containers[0].name", "RFC 1123"}},
		"job volume":       {step: lifecyclev1.Step{Job: job(strings.Replace(jobSpec, `"image":"b"`, `"image":"b","volumeMounts":[{"name":"v","mountPath":"/v"}]`, 1))}, want: []string{first + "job.spec.template.spec.containers[0].volumeMounts[0].name"}},
		"job namespace":    {step: lifecyclev1.Step{Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Namespace: "other", Spec: job(jobSpec).Spec}}, want: []string{first + "job.namespace", "namespace of its policy"}},
		"webhook http":     {step: webhookTo("http://example.com"), want: []string{first + "webhook.url", "https://"}},
		"webhook user":     {step: webhookTo("https://u:hunter2@example.com"), want: []string{first + "webhook.url", "must not have a user"}},
		"webhook fragment": {step: webhookTo("https://example.com/#a"), want: []string{first + "webhook.url", "fragment"}},
		"webhook CA":       {step: lifecyclev1.Step{Webhook: &lifecyclev1.WebhookStep{URL: "https://example.com", SecretName: "a", CABundle: "none"}}, want: []string{first + "webhook.caBundle", "PEM"}},
		"webhook secret":   {step: lifecyclev1.Step{Webhook: &lifecyclev1.WebhookStep{URL: "https://example.com", SecretName: "A"}}, want: []string{first + "webhook.secretName"}},
		"wait version":     {step: wait(func(w *lifecyclev1.WaitStep) { w.APIVersion = "a/b/c" }), want: []string{first + "wait.apiVersion", "apps/v1"}},
		"wait kind":        {step: wait(func(w *lifecyclev1.WaitStep) { w.Kind = "deployments" }), want: []string{first + "wait.kind", "Deployment"}},
		"wait expression":  {step: wait(func(w *lifecyclev1.WaitStep) { w.Expression = "object.size() > 0" }), want: []string{first + "wait.expression", "undeclared reference to 'object'"}},
		"wait selector":    {step: wait(func(w *lifecyclev1.WaitStep) { w.LabelSelector = badSelector() }), want: []string{first + "wait.labelSelector.matchExpressions[0].operator"}},
		"wait namespace":   {step: wait(func(w *lifecyclev1.WaitStep) { w.Namespace = "a/b" }), want: []string{first + "wait.namespace"}},
		"wait name": {step: wait(func(w *lifecyclev1.WaitStep) { w.Name, w.LabelSelector = "a", &metav1.LabelSelector{} }),
			want: []string{first + "wait.labelSelector", "one of the two"}},
		"export version":   {step: export("v1/", "ConfigMap"), want: []string{first + "export.resources[0].apiVersion"}},
		"export place":     {step: archivedIn("A"), want: []string{first + "export.namespace", "RFC 1123"}},
		"export kind":      {step: export("v1", "*"), want: []string{first + "export.resources[0].kind"}},
		"export namespace": {step: lifecyclev1.Step{Export: &lifecyclev1.ExportStep{Resources: []lifecyclev1.ExportResource{{APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{"A"}}}}}, want: []string{first + "export.resources[0].namespaces[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.step.Name = "step"
			p := newPolicy(namespace, "bad", c.step)
			if c.change != nil {
				c.change(p)
			}
			err := env.Client.Create(t.Context(), p)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want it to be refused as invalid", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
}

var approval = lifecyclev1.Step{Approval: &lifecyclev1.ApprovalStep{}}

func badSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
}

func atCreate(p *lifecyclev1.LifecyclePolicy) { p.Spec.Hooks[0].Hook = lifecyclev1.BeforeClusterCreate }

func expression(text string) lifecyclev1.Step {
	return lifecyclev1.Step{Expression: &lifecyclev1.ExpressionStep{Expression: text}}
}

func window(schedule, zone string, seconds int32) lifecyclev1.Step {
	return lifecyclev1.Step{Window: &lifecyclev1.WindowStep{Schedule: schedule, TimeZone: zone, DurationSeconds: seconds}}
}

func source(kind, name, key string) lifecyclev1.Step {
	return lifecyclev1.Step{Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: kind, Name: name, Key: key}}}}
}

func webhookTo(url string) lifecyclev1.Step {
	return lifecyclev1.Step{Webhook: &lifecyclev1.WebhookStep{URL: url, SecretName: "key"}}
}

func wait(change func(*lifecyclev1.WaitStep)) lifecyclev1.Step {
	w := &lifecyclev1.WaitStep{APIVersion: "apps/v1", Kind: "Deployment", Expression: "objects.size() > 0"}
	change(w)
	return lifecyclev1.Step{Wait: w}
}

func export(apiVersion, kind string) lifecyclev1.Step {
	return lifecyclev1.Step{Export: &lifecyclev1.ExportStep{Resources: []lifecyclev1.ExportResource{{APIVersion: apiVersion, Kind: kind}}}}
}

func named(name string, s lifecyclev1.Step) lifecyclev1.Step {
	s.Name = name
	return s
}

// warned collects the warnings that a client gets.
type warned struct {
	mu   sync.Mutex
	text []string
}

func (w *warned) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// warning returns an administrator's client and the warnings that it gets.
func warning(t *testing.T) (client.Client, *warned) {
	t.Helper()
	w := &warned{}
	config := rest.CopyConfig(env.Config)
	config.WarningHandler = w
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func TestAGoodPolicyIsStoredWithoutWarning(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	env.BindIn(t, engine, namespace, rights.StepsRole)
	env.BindIn(t, engine, namespace, rights.JobsRole)
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cni"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}},
	} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c, w := warning(t)
	p := newPolicy(namespace, "good",
		named("quota", expression("clusters.size() < 10 && hosts.exists(h, h.metadata.name != '')")),
		named("window", window("0 22 * * 6", "Europe/Berlin", 3600)),
		named("approve", approval),
		named("cni", source("ConfigMap", "cni", "cni.yaml")),
		named("smoke", lifecyclev1.Step{Job: job(jobSpec)}),
		named("call", webhookTo("https://example.com/hook?a=b")),
		named("ready", wait(func(*lifecyclev1.WaitStep) {})),
		named("save", export("apps/v1", "Deployment")),
		named("load", lifecyclev1.Step{Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Spec: job(jobSpec).Spec}}),
	)
	p.Spec.MatchCondition = `cluster.spec.topology.classRef.name == "slipway"`
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if len(w.text) != 0 {
		t.Errorf("warned: %q", w.text)
	}
}

// The author of a policy learns what the engine may not do there. The policy is stored:
// somebody else may grant it.
func TestMissingRightsAreWarnedOf(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	c, w := warning(t)
	management := lifecyclev1.Step{Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Spec: job(jobSpec).Spec}}
	gates := newPolicy(namespace, "gates", named("quota", expression("clusters.size() < 10")), named("night", window("0 2 * * *", "", 3600)), named("go", approval))
	for _, p := range []*lifecyclev1.LifecyclePolicy{gates, newPolicy(namespace, "p", named("cni", source("ConfigMap", "cni", "")), named("load", management))} {
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	const grant = "; grant it by: kubectl create rolebinding "
	as := " --serviceaccount=" + engineNamespace + ":slipway-lifecycle"
	want := "steps wait for rights of the engine: slipway-lifecycle may not get secrets, get configmaps cni, create secrets, update secrets in namespace " + namespace +
		grant + rights.StepsRole + " -n " + namespace + " --clusterrole=" + rights.StepsRole + as +
		"; slipway-lifecycle may not get jobs, create jobs, patch jobs, delete jobs, list pods, get pods/log in namespace " + namespace +
		grant + rights.JobsRole + " -n " + namespace + " --clusterrole=" + rights.JobsRole + as
	if got := strings.Join(w.text, "\n"); got != want {
		t.Errorf("warned: %q, want %q", got, want)
	}
}

// TestJobsAreOnlyTriedInTheOwnNamespace: the right by which the engine has Jobs validated
// makes none.
func TestJobsAreOnlyTriedInTheOwnNamespace(t *testing.T) {
	testenv.Skip(t)
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
	// A Job that was made before keeps its name: nobody here takes the finalizer of its deletion away.
	own := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: engineNamespace, GenerateName: "own-"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	poll.Until(t, "the API server knows the policy", func() error {
		if err := engineClient.Create(t.Context(), own.DeepCopy()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only validates Jobs") {
			return fmt.Errorf("want it refused, got %w", err)
		}
		return nil
	})
	if err := engineClient.Create(t.Context(), own.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run is refused: %v", err)
	}
	if err := env.Client.Create(t.Context(), own.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("others are its business: %v", err)
	}
}

func TestWhatIsMissingIsWarnedOf(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	env.BindIn(t, engine, namespace, rights.StepsRole)
	c, w := warning(t)
	if err := c.Create(t.Context(), newPolicy(namespace, "p", named("cni", source("ConfigMap", "cni", "")), named("call", webhookTo("https://example.com")))); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(w.text, "\n")
	for _, want := range []string{
		"spec.hooks[0].steps[0].apply.sources[0]: there is no ConfigMap " + namespace + "/cni yet",
		"spec.hooks[0].steps[1].webhook.secretName: there is no Secret " + namespace + "/key yet",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not warned of %q: %s", want, got)
		}
	}
}

func TestContradictingWindowsAreWarnedOf(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	c, w := warning(t)
	if err := c.Create(t.Context(), newPolicy(namespace, "one", named("night", window("0 2 * * *", "", 3600)))); err != nil {
		t.Fatal(err)
	}
	if len(w.text) != 0 {
		t.Errorf("warned: %q", w.text)
	}
	awaitList(t, namespace, 1)
	if err := c.Create(t.Context(), newPolicy(namespace, "two", named("noon", window("0 12 * * *", "", 3600)))); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.text, "\n"); !strings.Contains(got, "the window of step noon is never open at the same time as that of step night of LifecyclePolicy one") {
		t.Errorf("warned: %q", got)
	}
}

func TestAClusterWithoutATopologyIsWarnedOf(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	bare := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}}
	bare.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: "bare"}
	if err := env.Client.Create(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the webhook's cache has the Cluster", func() error {
		return cached.Get(t.Context(), client.ObjectKeyFromObject(bare), &clusterv1.Cluster{})
	})
	c, w := warning(t)
	if err := c.Create(t.Context(), newPolicy(namespace, "p", named("ask", approval))); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.text, "\n"); !strings.Contains(got, "without spec.topology, so the policy holds nothing back of bare;") {
		t.Errorf("warned: %q", got)
	}
}

func TestWindowsThatSurpriseAreWarnedOf(t *testing.T) {
	testenv.Skip(t)
	c, w := warning(t)
	namespace := env.Namespace(t)
	for name, tt := range map[string]struct{ schedule, want string }{
		"always": {"0 * * * *", "never closes"},
		"either": {"0 22 1-7 * 6", "days that match either: "},
		"both":   {"0 22 */100,1-7 * 6", ""},
	} {
		w.text = nil
		if err := c.Create(t.Context(), newPolicy(namespace, name, named("window", window(tt.schedule, "", 7200)))); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(w.text, "\n")
		if !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "window:") {
			t.Errorf("%s: warned of %q", tt.schedule, got)
		}
		if openings := strings.Count(got, " 22:00 UTC"); tt.want != "" && name == "either" && openings != 5 {
			t.Errorf("%s: %d openings are named in %q", tt.schedule, openings, got)
		}
	}
}

func TestAnInvalidUpdateIsRefusedAndMetadataIsNot(t *testing.T) {
	testenv.Skip(t)
	p := newPolicy(env.Namespace(t), "p", named("window", window("@daily", "", 3600)))
	if err := env.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	bad := p.DeepCopy()
	bad.Spec.Hooks[0].Steps[0].Window.TimeZone = "Mars/Olympus"
	if err := env.Client.Update(t.Context(), bad); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "window.timeZone") {
		t.Errorf("got %v", err)
	}
	p.Labels = map[string]string{"a": "b"}
	if err := env.Client.Update(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// TestAPolicyDoesNothingThatItsAuthorMayNot has an author without rights on Secrets and
// Jobs try to reach them by a policy.
func TestAPolicyDoesNothingThatItsAuthorMayNot(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	policies := allow(lifecyclev1.GroupVersion.Group, "lifecyclepolicies", "create", "update", "get")
	management := lifecyclev1.Step{Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Spec: job(jobSpec).Spec}}
	author := user(t, namespace, "author", policies)
	elsewhere := env.Namespace(t)
	for name, c := range map[string]struct {
		step lifecyclev1.Step
		want []string
	}{
		"management": {management, []string{"spec.hooks[0].steps[0].job.target", `"author" may not create jobs.batch in namespace ` + namespace}},
		"secret":     {source("Secret", "token", ""), []string{"spec.hooks[0].steps[0].apply.sources[0]", `"author" may not get secrets`}},
		"archive":    {archivedIn(elsewhere), []string{"spec.hooks[0].steps[0].export.namespace", `"author" may not create secrets in namespace ` + elsewhere}},
	} {
		err := author.Create(t.Context(), newPolicy(namespace, name, named("step", c.step)))
		if !apierrors.IsForbidden(err) {
			t.Fatalf("%s: got %v, want it to be forbidden", name, err)
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not say %q: %v", name, part, err)
			}
		}
	}
	p := newPolicy(namespace, "harmless", named("step", lifecyclev1.Step{Job: job(jobSpec)}))
	if err := author.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.Spec.Hooks[0].Steps[0] = named("step", management)
	if err := author.Update(t.Context(), p); !apierrors.IsForbidden(err) {
		t.Errorf("by an update: %v", err)
	}
	trusted := user(t, namespace, "trusted", policies, allow("batch", "jobs", "create"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"token"}})
	if err := trusted.Create(t.Context(), newPolicy(namespace, "trusted", named("a", management), named("b", source("Secret", "token", "")))); err != nil {
		t.Error(err)
	}
	// The right is asked for where the archive is to be.
	user(t, elsewhere, "trusted", allow("", "secrets", "create"))
	for _, in := range []string{elsewhere, namespace} {
		if err := trusted.Create(t.Context(), newPolicy(namespace, "archive-in-"+in, named("save", archivedIn(in)))); err != nil {
			t.Error(err)
		}
	}
}

func archivedIn(namespace string) lifecyclev1.Step {
	s := export("v1", "ConfigMap")
	s.Export.Namespace = namespace
	return s
}
