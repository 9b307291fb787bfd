package csrapprover

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
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
// and its condition becomes Unknown.
func (c *Controller) living(name string) bool {
	node, found := c.nodes.Indexer().GetByKey(name)
	return found && ready(node) != corev1.ConditionUnknown
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
func (c *Controller) hold(request *certificatesv1.CertificateSigningRequest, node string) reconcile.Result {
	c.events.Event(request, corev1.EventTypeWarning, heldReason,
		"Not approved: %s asks for a certificate of node %s, which has one and is alive. "+
			"Approve it by hand, or delete the node after its agent has ended", request.Spec.Username, node)
	c.cfg.Logger.Warn("certificate request not approved: its node has a certificate and is alive",
		"name", request.Name, "node", node, "requester", request.Spec.Username)
	return reconcile.Result{RequeueAfter: min(max(time.Since(request.CreationTimestamp.Time), time.Second), heldDelay)}
}

// nodeHandler enqueues the undecided requests for a node when the node is gone or becomes Unknown.
func (c *Controller) nodeHandler(enqueue func(string)) informer.ResourceEventHandler[*corev1.Node] {
	waiting := func(node string) {
		for _, request := range c.requests.Indexer().List() {
			if decided(request) || len(request.Status.Certificate) != 0 {
				continue
			}
			if parsed, err := parse(request.Spec.Request); err == nil && parsed.Subject.CommonName == userPrefix+node {
				enqueue(request.Name)
			}
		}
	}
	return informer.ResourceEventHandlerFuncs[*corev1.Node]{
		UpdateFunc: func(before, after *corev1.Node) {
			if ready(before) != corev1.ConditionUnknown && ready(after) == corev1.ConditionUnknown {
				waiting(after.Name)
			}
		},
		DeleteFunc: func(deleted informer.DeletedObject[*corev1.Node]) {
			_, name := deleted.GetObjectName()
			waiting(name)
		},
	}
}

// nodeOf returns the name of the node from the user name in its certificate.
func nodeOf(user string) string { return strings.TrimPrefix(user, userPrefix) }
