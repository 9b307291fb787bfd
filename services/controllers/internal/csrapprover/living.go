package csrapprover

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// userPrefix precedes a node's name in the user name of its certificate.
	userPrefix = "system:node:"
	// heldReason is the reason of the Event on a request that waits for its node to be gone.
	heldReason = "NodeStillAlive"
	// heldDelay bounds how long such a request waits before its node is checked again.
	heldDelay = time.Minute
)

// living reports whether a node is in use: its Ready condition is known, so an agent reports with a
// certificate that the API accepts. A node that has lost its certificate cannot renew its Lease,
// and its condition becomes Unknown. The API has the last word on a node that seems gone: one that
// has just joined may not be in the cache yet.
func (r *reconciler) living(ctx context.Context, name string) (bool, error) {
	if node, found := r.nodes.Indexer().GetByKey(name); found && ready(node) != corev1.ConditionUnknown {
		return true, nil
	}
	node, err := r.live.Get(ctx, "", name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether node %q is alive: %w", name, err)
	}
	return ready(node) != corev1.ConditionUnknown, nil
}

// ready returns the status of a node's Ready condition; Unknown while it has none.
func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

// hold leaves a request undecided because its requester is not the node itself, and reports that in
// an Event and the log.
func (r *reconciler) hold(request *certificatesv1.CertificateSigningRequest, node string) reconcile.Result {
	r.events.Event(request, corev1.EventTypeWarning, heldReason,
		"Not approved: %s asks for a certificate of node %s, which has one and is alive. "+
			"Approve it by hand, or delete the node after its agent has ended", request.Spec.Username, node)
	r.logger.Warn("certificate request not approved: its node has a certificate and is alive",
		"name", request.Name, "node", node, "requester", request.Spec.Username)
	return reconcile.Result{RequeueAfter: min(max(time.Since(request.CreationTimestamp.Time), time.Second), heldDelay)}
}

// nodeChanged asks for reconciles of the undecided requests for a node that is gone or becomes Unknown.
func (r *reconciler) nodeChanged(q controller.Queue, old, now *corev1.Node) {
	if old == nil || now != nil && (ready(old) == corev1.ConditionUnknown || ready(now) != corev1.ConditionUnknown) {
		return
	}
	for _, request := range r.requests.In("") {
		if decided(request) || len(request.Status.Certificate) != 0 {
			continue
		}
		if parsed, err := parse(request.Spec.Request); err == nil && parsed.Subject.CommonName == userPrefix+old.Name {
			q.Add(request)
		}
	}
}

// nodeOf returns the name of the node from the user name in its certificate.
func nodeOf(user string) string { return strings.TrimPrefix(user, userPrefix) }
