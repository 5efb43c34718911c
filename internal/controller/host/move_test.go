package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// movable is a host that runs for a Cluster, and the Cluster.
func movable(t *testing.T) (*world, *testenv.Agent, *clusterv1.Cluster) {
	t.Helper()
	w := newWorld(t)
	w.makeSigner()
	cluster := testenv.NewCluster(t, env.Client, w.namespace)
	agent := w.host("host-1")
	w.claim(agent, infrav1.HostDesiredBootstrapped)
	agent.Obey(t, w.clock.Now())
	return w, agent, cluster
}

// makeSigner does what enrollment does.
func (w *world) makeSigner() {
	w.t.Helper()
	err := env.Client.Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: infrav1.HandOverSignerSecretName},
		Data:       map[string][]byte{infrav1.HandOverSignerSeedKey: []byte(strings.Repeat("s", 32))},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Without a key there is nothing to sign with, and the Secret says so.
func TestHandOverNeedsASigner(t *testing.T) {
	w := newWorld(t)
	secret := w.requestHandOver(target(t))
	if problem := secret.Annotations[infrav1.HandOverProblemAnnotation]; !strings.Contains(problem, infrav1.HandOverSignerSecretName+" is missing") {
		t.Errorf("problem = %q", problem)
	}
	w.makeSigner()
	if secret = w.requestHandOver(target(t)); len(secret.Data[infrav1.HandOverSignatureKey]) == 0 || len(secret.Annotations) > 0 {
		t.Errorf("it is not signed: %v", secret.Annotations)
	}
}

func (w *world) setPaused(cluster *clusterv1.Cluster, paused bool) {
	w.t.Helper()
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		w.t.Fatal(err)
	}
	cluster.Spec.Paused = nil
	if paused {
		cluster.Spec.Paused = ptr.To(true)
	}
	w.update(cluster)
}

// requestHandOver creates or changes the Secret that hands over for an hour, and prepares it.
func (w *world) requestHandOver(kubeconfig string, mutate ...func(*corev1.Secret)) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: infrav1.HandOverSecretName}, Type: infrav1.HandOverSecretType}
	_, err := ctrl.CreateOrUpdate(context.Background(), env.Client, secret, func() error {
		secret.Labels = map[string]string{infrav1.PurposeLabel: infrav1.HandOverPurpose}
		secret.Data = map[string][]byte{
			infrav1.HandOverKubeconfigKey: []byte(kubeconfig),
			infrav1.HandOverExpirationKey: []byte(w.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
		}
		for _, change := range mutate {
			change(secret)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	secret, _ = w.prepareHandOver()
	return secret
}

// prepareHandOver reconciles the Secret, and returns it and when it is looked at again.
func (w *world) prepareHandOver() (*corev1.Secret, time.Duration) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: infrav1.HandOverSecretName}}
	result := w.reconcileHandOver()
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret); err != nil {
		w.t.Fatal(err)
	}
	return secret, result.RequeueAfter
}

func (w *world) reconcileHandOver() ctrl.Result {
	w.t.Helper()
	r := &hostcontroller.HandOverReconciler{Client: managed, APIReader: managed, Recorder: &events.FakeRecorder{}, Clock: w.clock}
	result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: infrav1.HandOverSecretName}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func target(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://target.example:6443", CertificateAuthorityData: []byte("CA")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lease reads the Lease of a host.
func (w *world) lease(agent *testenv.Agent) *coordinationv1.Lease {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(context.Background(), agent.Key, lease); err != nil {
		w.t.Fatal(err)
	}
	return lease
}

// answer plays the agent: it reports on the hand-over that is announced.
func (w *world) answer(agent *testenv.Agent, waiting string) {
	w.t.Helper()
	lease := w.lease(agent)
	report := host.HandOverReport{Revision: lease.Annotations[infrav1.HandOverAnnotation], Waiting: waiting}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, infrav1.HandOverReportAnnotation, report.String())
	w.update(lease)
}

// A claimed host holds up a move all the time, and lets go while its Cluster is paused,
// once its agent can go, too.
func TestHostHoldsUpMove(t *testing.T) {
	w, agent, cluster := movable(t)
	step := func(what string, blocks bool, reason string) {
		t.Helper()
		h, _ := w.reconcile(agent)
		if host.BlocksMove(h) != blocks || conditions.GetReason(h, infrav1.ReadyToMoveCondition) != reason {
			t.Fatalf("%s: blocks = %t, ReadyToMove = %+v", what, host.BlocksMove(h), conditions.Get(h, infrav1.ReadyToMoveCondition))
		}
	}
	step("running", true, "")
	w.setPaused(cluster, true)
	step("paused without a hand-over", true, infrav1.HostNoHandOverReason)
	w.requestHandOver("apiVersion: v1")
	step("a hand-over that is none", true, infrav1.HostHandOverNotSignedReason)
	w.requestHandOver(target(t))
	step("announced", true, infrav1.HostHandOverPendingReason)
	w.answer(agent, "cannot reach https://target.example:6443")
	step("out of reach", true, infrav1.HostHandOverPendingReason)
	if h := agent.Host(t); !strings.Contains(conditions.GetMessage(h, infrav1.ReadyToMoveCondition), "cannot reach https://target.example:6443") {
		t.Errorf("the agent's reason is not told: %s", conditions.GetMessage(h, infrav1.ReadyToMoveCondition))
	}
	w.answer(agent, "")
	step("ready", false, infrav1.HostReadyToMoveReason)
	w.setPaused(cluster, false)
	step("the move was given up", true, infrav1.HostReadyToMoveReason)
	w.requestHandOver("")
	w.setPaused(cluster, true)
	step("by hand", false, infrav1.HostHandOverByHandReason)
}

// A move that hands nobody over is refused, also when no agent is there that could be told.
func TestMoveOfUnreachableHostsIsRefused(t *testing.T) {
	w, first, cluster := movable(t)
	agents := []*testenv.Agent{first}
	for _, name := range []string{"host-2", "host-3"} {
		agent := w.host(name)
		h := agent.Host(t)
		h.Spec.Claim = &infrav1.HostClaim{MachineName: name, ClusterName: cluster.Name, ClaimID: name}
		h.Spec.ClaimGeneration = 1
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "op-1", BootstrapSecretName: "secret-1"}
		w.update(h)
		agent.Obey(t, w.clock.Now())
		agents = append(agents, agent)
	}
	step := func(what string, blocks bool, reason, message string) {
		t.Helper()
		for _, agent := range agents {
			h, _ := w.reconcile(agent)
			c := conditions.Get(h, infrav1.ReadyToMoveCondition)
			if host.BlocksMove(h) != blocks || c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
				t.Errorf("%s, %s: blocks = %t, ReadyToMove = %+v", h.Name, what, host.BlocksMove(h), c)
			}
		}
	}
	for _, agent := range agents {
		w.reconcile(agent)
	}
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration + time.Second))
	w.setPaused(cluster, true)
	step("nobody asked", true, infrav1.HostNoHandOverReason, infrav1.HandOverSecretName)
	w.requestHandOver(target(t))
	step("asked", false, infrav1.HostAgentNotConnectedReason, "when it returns")
	if err := env.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: infrav1.HandOverSecretName}}); err != nil {
		t.Fatal(err)
	}
	step("asked no more", true, infrav1.HostNoHandOverReason, "not connected")
	w.requestHandOver("")
	step("by hand", false, infrav1.HostAgentNotConnectedReason, "")
}

func TestOperationHoldsUpMove(t *testing.T) {
	w, agent, cluster := movable(t)
	w.requestHandOver("")
	agent.Report(t, func(s *infrav1.HostStatus) { s.ObservedOperation.State = infrav1.OperationRunning })
	w.reconcile(agent)
	w.setPaused(cluster, true)
	h, _ := w.reconcile(agent)
	if !host.BlocksMove(h) || conditions.GetReason(h, infrav1.ReadyToMoveCondition) != infrav1.HostOperationInProgressReason {
		t.Fatalf("a host that is being bootstrapped may be moved: %+v", conditions.Get(h, infrav1.ReadyToMoveCondition))
	}
	// A host that is away must not hold up a move for ever.
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration + time.Second))
	h, _ = w.reconcile(agent)
	if host.BlocksMove(h) || conditions.GetReason(h, infrav1.ReadyToMoveCondition) != infrav1.HostAgentNotConnectedReason {
		t.Errorf("a host that is away holds up the move: %+v", conditions.Get(h, infrav1.ReadyToMoveCondition))
	}
	if h.Spec.Claim == nil {
		t.Error("it lost its claim")
	}
}

// A claim whose Cluster is gone, as of a host that has been away since, must not hold up
// the moves of others, and neither must a free host, paused or not.
func TestHostWithoutClusterHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	orphan := w.host("host-1")
	w.claim(orphan, infrav1.HostDesiredReset)
	for _, agent := range []*testenv.Agent{orphan, w.host("host-2")} {
		if h, _ := w.reconcile(agent); host.BlocksMove(h) {
			t.Errorf("%s holds up moves for ever", h.Name)
		}
		h := agent.Host(t)
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, clusterv1.PausedAnnotation, "")
		w.update(h)
		if h, _ := w.reconcile(agent); host.BlocksMove(h) {
			t.Errorf("%s holds up moves for ever once it is paused", h.Name)
		}
	}
}

// Hosts that enrolled before their namespace had a key are held until there is one, even
// those that are away: it is up to the operator alone. An agent that was away since will
// not follow by itself, and that is told before the move.
func TestHostsFromBeforeTheSigner(t *testing.T) {
	w := newWorld(t)
	cluster := testenv.NewCluster(t, env.Client, w.namespace)
	agent := w.host("host-1")
	w.claim(agent, infrav1.HostDesiredBootstrapped)
	agent.Obey(t, w.clock.Now())
	w.reconcile(agent)
	w.requestHandOver(target(t))
	w.setPaused(cluster, true)
	step := func(what string, blocks bool, reason, message string) {
		t.Helper()
		h, _ := w.reconcile(agent)
		c := conditions.Get(h, infrav1.ReadyToMoveCondition)
		if host.BlocksMove(h) != blocks || c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
			t.Errorf("%s: blocks = %t, ReadyToMove = %+v", what, host.BlocksMove(h), c)
		}
	}
	step("no key", true, infrav1.HostHandOverNotSignedReason, "`slipway host token -n "+w.namespace+"`")
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration + time.Second))
	step("no key, away", true, infrav1.HostHandOverNotSignedReason, infrav1.HandOverSignerSecretName+" is missing")
	w.makeSigner()
	w.requestHandOver(target(t))
	step("a key, away", false, infrav1.HostHandOverByHandReason, "bring it a bootstrap kubeconfig")

	lease := w.lease(agent)
	if signer := lease.Annotations[infrav1.HandOverSignerAnnotation]; signer != "" {
		t.Errorf("it counts as told: %s", signer)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now()}
	w.update(lease)
	step("back", true, infrav1.HostHandOverPendingReason, "")
	w.answer(agent, "")
	step("ready", false, infrav1.HostReadyToMoveReason, "")
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration + time.Second))
	step("away again", false, infrav1.HostAgentNotConnectedReason, "")
}

// Agents learn by their Lease who signs, and may read the hand-over even when their
// Hosts are gone.
func TestHandOverIsSignedAndReadable(t *testing.T) {
	w, agent, _ := movable(t)
	w.reconcile(agent)
	signer := host.DecodeSigner(w.lease(agent).Annotations[infrav1.HandOverSignerAnnotation])
	secret := w.requestHandOver(target(t))
	handOver := host.ReadHandOver(secret.Data)
	if err := handOver.Verify(signer, w.namespace); err != nil {
		t.Errorf("the agent cannot verify it: %v", err)
	}
	if handOver.Verify(signer, "another") == nil {
		t.Error("it is good for another namespace")
	}
	w.reconcile(agent)
	if got := w.lease(agent).Annotations[infrav1.HandOverAnnotation]; got != handOver.Revision() {
		t.Errorf("announced is %q, not %s", got, handOver.Revision())
	}

	h := agent.Host(t)
	h.Finalizers = nil
	w.update(h)
	if err := env.Client.Delete(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	w.requestHandOver(target(t))
	binding := &rbacv1.RoleBinding{}
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), binding); err != nil {
		t.Fatal(err)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != infrav1.AgentUser(w.namespace, "host-1", testenv.HostID(w.namespace, "host-1")) {
		t.Errorf("subjects = %+v", binding.Subjects)
	}
}

// A kubeconfig that runs programs or reads files would do so as root on every host.
func TestHandOverRefusesPrograms(t *testing.T) {
	w := newWorld(t)
	for what, kubeconfig := range map[string]string{
		"exec":     strings.Replace(target(t), "token: abcdef.0123456789abcdef", "token: t\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}", 1),
		"insecure": strings.Replace(target(t), "certificate-authority-data: Q0E=", "insecure-skip-tls-verify: true", 1),
		"http":     strings.Replace(target(t), "https://", "http://", 1),
		"no token": strings.Replace(target(t), "token: abcdef.0123456789abcdef", "username: me", 1),
	} {
		if kubeconfig == target(t) {
			t.Fatalf("%s: the kubeconfig was not changed", what)
		}
		secret := w.requestHandOver(kubeconfig)
		if len(secret.Data[infrav1.HandOverSignatureKey]) > 0 || secret.Annotations[infrav1.HandOverProblemAnnotation] == "" {
			t.Errorf("%s was signed: %v", what, secret.Annotations)
		}
	}
}

// A Secret that is meant for something else is no hand-over because of its name: nobody
// reads it, and it says what to do.
func TestHandOverIsWhatItSays(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(*corev1.Secret)
		want   string
	}{
		"a Secret of an earlier version": {func(s *corev1.Secret) { s.Type, s.Labels = corev1.SecretTypeOpaque, nil }, "its type is Opaque, not " + infrav1.HandOverSecretType + "; delete it"},
		"another purpose":                {func(s *corev1.Secret) { s.Labels = nil }, "label " + infrav1.PurposeLabel + "=" + infrav1.HandOverPurpose + " is missing"},
		"no end":                         {func(s *corev1.Secret) { delete(s.Data, infrav1.HandOverExpirationKey) }, "key expiration: want the time"},
		"an end that is none":            {func(s *corev1.Secret) { s.Data[infrav1.HandOverExpirationKey] = []byte("tomorrow") }, "key expiration: want the time"},
		"an end in the past":             {func(s *corev1.Secret) { s.Data[infrav1.HandOverExpirationKey] = []byte("2020-01-01T00:00:00Z") }, "ended at 2020-01-01T00:00:00Z; write a later time"},
	} {
		for how, kubeconfig := range map[string]string{"": target(t), ", by hand": ""} {
			t.Run(what+how, func(t *testing.T) {
				w, agent, cluster := movable(t)
				secret := w.requestHandOver(kubeconfig, tc.change)
				if problem := secret.Annotations[infrav1.HandOverProblemAnnotation]; len(secret.Data[infrav1.HandOverSignatureKey]) > 0 || !strings.Contains(problem, tc.want) {
					t.Errorf("it is signed, or says %q instead of %q", problem, tc.want)
				}
				if w.readable(secret) {
					t.Error("agents may read it")
				}
				w.setPaused(cluster, true)
				w.reconcile(agent)
				if c := conditions.Get(agent.Host(t), infrav1.ReadyToMoveCondition); c == nil || c.Reason != infrav1.HostHandOverNotSignedReason || !strings.Contains(c.Message, tc.want) {
					t.Errorf("ReadyToMove = %+v", c)
				}
			})
		}
	}
}

// A hand-over ends by itself: with its signature goes the right to read the token of the
// target. Who was away meanwhile reads it when it is prolonged.
func TestHandOverEnds(t *testing.T) {
	w, agent, _ := movable(t)
	secret := w.requestHandOver(target(t))
	readable := func() bool {
		t.Helper()
		return w.readable(secret)
	}
	if _, again := w.prepareHandOver(); !readable() || again <= 0 || again > time.Hour {
		t.Fatalf("a hand-over of an hour is looked at again after %s; readable: %t", again, readable())
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour + time.Second))
	if secret, _ = w.prepareHandOver(); len(secret.Data[infrav1.HandOverSignatureKey]) > 0 || readable() {
		t.Error("agents may read it after its end")
	}
	w.reconcile(agent)
	if announced := w.lease(agent).Annotations[infrav1.HandOverAnnotation]; announced != "" {
		t.Errorf("%s is announced after its end", announced)
	}
	h := agent.Host(t)
	h.Finalizers = nil
	w.update(h)
	if err := env.Client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	secret = w.requestHandOver(target(t))
	binding := &rbacv1.RoleBinding{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil || len(binding.Subjects) != 1 || !readable() {
		t.Errorf("prolonged, it is read by %+v, readable: %t, %v", binding.Subjects, readable(), err)
	}
}

// The agent of a host that somebody smuggled in does not get the token of the target.
func TestOnlyApprovedHostsReadTheHandOver(t *testing.T) {
	w, agent, _ := movable(t)
	smuggled := w.host("host-0", func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending })
	readers := func() []string {
		t.Helper()
		secret, binding := w.requestHandOver(target(t)), &rbacv1.RoleBinding{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range binding.Subjects {
			names = append(names, s.Name)
		}
		return names
	}
	user := func(a *testenv.Agent) string {
		return infrav1.AgentUser(w.namespace, a.Key.Name, testenv.HostID(w.namespace, a.Key.Name))
	}
	if got := readers(); !slices.Equal(got, []string{user(agent)}) {
		t.Errorf("%v read it", got)
	}
	h := smuggled.Host(t)
	h.Spec.Approval = infrav1.HostApprovalApproved
	w.update(h)
	if got := readers(); !slices.Equal(got, []string{user(smuggled), user(agent)}) {
		t.Errorf("once both are approved, %v read it", got)
	}
	h = smuggled.Host(t)
	h.Spec.Approval = infrav1.HostApprovalDenied
	w.update(h)
	if got := readers(); !slices.Equal(got, []string{user(agent)}) {
		t.Errorf("once host-0 is denied, %v read it", got)
	}

	// The list stays when the Secret goes, and with it the agents of hosts that moved away.
	secret, binding := w.requestHandOver(target(t)), &rbacv1.RoleBinding{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
		t.Fatal(err)
	}
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: infrav1.AgentUser(w.namespace, "host-9", "key")})
	if err := controllerutil.SetControllerReference(secret, binding, env.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	w.update(binding)
	if got := readers(); len(got) != 2 {
		t.Errorf("of a host that moved away, %v read it", got)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil || len(binding.OwnerReferences) > 0 {
		t.Errorf("the list goes with the Secret: %v, %v", binding.OwnerReferences, err)
	}
}

// readable says whether the agents on the list may read the hand-over.
func (w *world) readable(secret *corev1.Secret) bool {
	w.t.Helper()
	role := &rbacv1.Role{}
	if err := client.IgnoreNotFound(env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(secret), role)); err != nil {
		w.t.Fatal(err)
	}
	return len(role.Rules) > 0
}

// Whoever moved by hand, or with a hand-over that was taken away too early, is handed over
// afterwards all the same: agents of Hosts that are elsewhere stay on the list, without any
// right while there is no hand-over. Hosts that were deleted otherwise do not.
func TestHandOverMadeAfterTheMove(t *testing.T) {
	w, agent, _ := movable(t)
	w.host("host-2")
	gone, missed := w.host("host-3"), w.host("host-4")
	for _, a := range []*testenv.Agent{gone, missed} {
		w.reconcile(a)
	}
	secret := w.requestHandOver("")
	readers := func() []string {
		t.Helper()
		binding := &rbacv1.RoleBinding{}
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding)); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range binding.Subjects {
			host, _, _ := strings.Cut(strings.TrimPrefix(s.Name, infrav1.AgentUserPrefix+w.namespace+":"), ":")
			names = append(names, host)
		}
		return names
	}
	want := func(when string, readable bool, names ...string) {
		t.Helper()
		if got := readers(); !slices.Equal(got, names) || w.readable(secret) != readable {
			t.Errorf("%s: %v are on the list, not %v; readable: %t", when, got, names, w.readable(secret))
		}
	}
	takeAway := func(a *testenv.Agent, moved bool) {
		t.Helper()
		h := a.Host(t)
		if moved {
			// As clusterctl does it.
			h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			h.Finalizers = nil
			w.update(h)
		}
		if err := env.Client.Delete(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	want("before the move", false, "host-1", "host-2", "host-3", "host-4")
	takeAway(agent, true)
	takeAway(gone, false)
	if h, _ := w.reconcile(gone); h != nil {
		t.Fatal("the Host that was deleted stays")
	}
	want("once one has moved and one was deleted", false, "host-1", "host-2", "host-4")
	takeAway(missed, false)
	w.requestHandOver(target(t))
	want("handed over after the move, with one that is being deleted", true, "host-1", "host-2")

	// Somebody who may write RoleBindings puts himself, and an agent of elsewhere, on it.
	binding := &rbacv1.RoleBinding{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
		t.Fatal(err)
	}
	binding.Subjects = append(
		binding.Subjects,
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: infrav1.AgentUser(w.namespace, "host-9", "key")},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: infrav1.AgentUser("elsewhere", "host-9", "key")},
	)
	w.update(binding)
	w.requestHandOver(target(t))
	want("with strangers", true, "host-1", "host-2")

	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcileHandOver()
	want("once the Secret is deleted", false, "host-1")
	w.requestHandOver(target(t))
	want("once it is made anew", true, "host-1", "host-2")
}

// A list that nobody is on goes with the Secret.
func TestHandOverLeavesNothing(t *testing.T) {
	w, _, _ := movable(t)
	secret := w.requestHandOver(target(t))
	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcileHandOver()
	w.reconcileHandOver()
	for _, o := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left: %v", o, err)
		}
	}
}

// In the target of a move Hosts come before the machines that claimed them, and no agent
// has reported there: nobody may be told to reset them.
func TestMovedHostIsNoOrphan(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	machine := w.claim(agent, infrav1.HostDesiredBootstrapped)
	if err := env.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	h := agent.Host(t)
	before := h.DeepCopy()
	h.Status = infrav1.HostStatus{}
	if err := env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	moved, _ := w.reconcile(agent)
	if reason := conditions.GetReason(moved, clusterv1.ReadyCondition); reason == infrav1.HostOrphanedClaimReason {
		t.Errorf("Ready says %s", reason)
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.BootID = "boot-1" })
	arrived, _ := w.reconcile(agent)
	if reason := conditions.GetReason(arrived, clusterv1.ReadyCondition); reason != infrav1.HostOrphanedClaimReason {
		t.Errorf("Ready says %s although the agent came and the machine did not", reason)
	}
}
