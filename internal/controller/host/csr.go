package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client,verbs=approve

// CSRReconciler approves the CertificateSigningRequests of agents and creates
// their Hosts, and deletes bootstrap tokens that are used up. It leaves every other
// request alone.
type CSRReconciler struct {
	Client client.Client
	// APIReader reads Hosts past the cache: whether a name is taken decides who
	// gets its identity. No cache holds the Secrets of tokens.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Namespace restricts enrollment to one namespace; to none when empty.
	Namespace string
	// WatchFilter is put on new Hosts as the label cluster.x-k8s.io/watch-filter.
	WatchFilter string
}

// Reconcile decides on one request.
func (r *CSRReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.Client.Get(ctx, req.NamespacedName, csr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	request, ours := parseRequest(csr)
	if !ours || (r.Namespace != "" && request.namespace != "" && request.namespace != r.Namespace) {
		return ctrl.Result{}, nil
	}
	switch {
	case decided(csr, certificatesv1.CertificateApproved) && request.token != "":
		return r.withToken(csr, func() (ctrl.Result, error) { return r.retire(ctx, request) })
	case decided(csr, certificatesv1.CertificateApproved), decided(csr, certificatesv1.CertificateDenied):
		return ctrl.Result{}, nil
	}
	return r.withToken(csr, func() (ctrl.Result, error) { return r.answer(ctx, csr, request) })
}

// withToken does what may read or change the Secret of a bootstrap token. Without the right to
// it the request stands, since the agent can do nothing about that.
func (r *CSRReconciler) withToken(csr *certificatesv1.CertificateSigningRequest, do func() (ctrl.Result, error)) (ctrl.Result, error) {
	result, err := do()
	if why := reconciler.MissingSecretRights(err, metav1.NamespaceSystem); why != "" {
		tellForbidden(r.Recorder, csr, "Enroll", why)
		return ctrl.Result{RequeueAfter: reconciler.SecretsRetry}, nil
	}
	return result, err
}

// answer decides on a request that nobody has decided on.
func (r *CSRReconciler) answer(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, request *request) (ctrl.Result, error) {
	refused := request.refused
	if refused == nil {
		there, err := r.arrived(ctx, request)
		if err != nil {
			return ctrl.Result{}, err
		}
		if !there {
			return ctrl.Result{RequeueAfter: arrivalPoll}, nil
		}
		if refused, err = r.admit(ctx, request); apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
		} else if err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.decide(ctx, csr, request, refused)
}

// arrivalPoll is how often it is looked whether the host of an agent that was handed
// over has come.
const arrivalPoll = 3 * time.Second

// arrived says whether the Host of an agent that was handed over is there. Until the
// move brings it, the request stands: a Host made now would be free, and its claim
// would stay behind. An agent that has a certificate of here is nobody's who comes.
func (r *CSRReconciler) arrived(ctx context.Context, request *request) (bool, error) {
	if !request.handedOver || request.renewal {
		return true, nil
	}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: request.namespace, Name: request.name}, &infrav1.Host{})
	return err == nil, client.IgnoreNotFound(err)
}

// admit makes sure that the Host exists and has the identity of the request. The
// Host is written before the approval, so that no certificate is ever without one.
func (r *CSRReconciler) admit(ctx context.Context, request *request) (*refusal, error) {
	h := &infrav1.Host{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: request.namespace, Name: request.name}, h)
	switch {
	case apierrors.IsNotFound(err) && request.renewal:
		return &refusal{infrav1.HostUnknownReason, fmt.Sprintf("Host %s/%s does not exist any more; enroll the host again with a bootstrap token", request.namespace, request.name)}, nil
	case apierrors.IsNotFound(err) && request.handedOver:
		return nil, fmt.Errorf("the Host %s/%s has gone again", request.namespace, request.name)
	case apierrors.IsNotFound(err):
		return r.createHost(ctx, request)
	case err != nil:
		return nil, fmt.Errorf("get Host %s/%s: %w", request.namespace, request.name, err)
	case request.renewal && request.isOf(h):
		// Also of a Host that is being deleted: it stays until its agent has reset it.
		return nil, nil
	case !h.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("the earlier Host %s/%s is still being deleted", request.namespace, request.name)
	case request.isOf(h):
		return nil, nil
	case h.Spec.HostID != "" || request.renewal:
		r.Recorder.Eventf(h, nil, corev1.EventTypeWarning, "DuplicateIdentity", "Enroll",
			"Refused a second machine with another key under the name of this host")
		return &refusal{infrav1.HostDuplicateIdentityReason, fmt.Sprintf("Host %s/%s already belongs to a machine with another key. "+
			"Give this machine another name, or delete the Host if it replaces the old one", request.namespace, request.name)}, nil
	}
	// An operator made the Host in advance; the first agent to come gets it.
	if refused, err := r.spend(ctx, request); err != nil || refused != nil {
		return refused, err
	}
	h.Spec.HostID = request.hostID
	if err := r.judge(ctx, h); err != nil {
		return nil, err
	}
	if err := r.Client.Update(ctx, h); err != nil {
		return nil, fmt.Errorf("record the identity of Host %s/%s: %w", request.namespace, request.name, err)
	}
	return nil, nil
}

func (r *CSRReconciler) createHost(ctx context.Context, request *request) (*refusal, error) {
	if refused, err := r.spend(ctx, request); err != nil || refused != nil {
		return refused, err
	}
	h := &infrav1.Host{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  request.namespace,
			Name:       request.name,
			Finalizers: []string{infrav1.HostFinalizer},
		},
		Spec: infrav1.HostSpec{HostID: request.hostID},
	}
	if r.WatchFilter != "" {
		h.Labels = map[string]string{clusterv1.WatchLabel: r.WatchFilter}
	}
	if err := r.judge(ctx, h); err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, h); err != nil {
		return nil, fmt.Errorf("create Host %s/%s: %w", request.namespace, request.name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Enrolled host", "Host", klog.KObj(h), "approval", h.Spec.Approval)
	return nil, nil
}

// judge says in a Host, in memory, whether it may be claimed.
func (r *CSRReconciler) judge(ctx context.Context, h *infrav1.Host) error {
	policy, err := approvalPolicy(ctx, r.APIReader, h.Namespace)
	if err != nil {
		return err
	}
	h.Spec.Approval = host.Approval(h, policy)
	return nil
}

func (r *CSRReconciler) decide(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, request *request, refused *refusal) error {
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: infrav1.HostRequestApprovedReason, Message: fmt.Sprintf("Agent of Host %s/%s", request.namespace, request.name),
	}
	if refused != nil {
		condition.Type, condition.Reason, condition.Message = certificatesv1.CertificateDenied, refused.reason, refused.message
	}
	csr.Status.Conditions = append(csr.Status.Conditions, condition)
	if err := r.Client.SubResource("approval").Update(ctx, csr); err != nil {
		return fmt.Errorf("decide on CertificateSigningRequest %s: %w", csr.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Decided on request", "decision", condition.Type, "reason", condition.Reason, "message", condition.Message)
	return nil
}

func decided(csr *certificatesv1.CertificateSigningRequest, so certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == so })
}
