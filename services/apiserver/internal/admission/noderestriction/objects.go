package noderestriction

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
)

// nodeDeletions is the part of NodeRestriction that needs to see the object being deleted.
func nodeDeletions(ctx context.Context, req *admission.Request) error {
	user, _ := authn.UserFrom(ctx)
	name, isNode := node.Identity(user)
	if !isNode || req.Verb != admission.Delete || req.Kind.GroupResource().String() != "resourceslices.resource.k8s.io" {
		return nil
	}
	if err := (&restriction{req: req, user: user, node: name}).slice(req.Old); err != nil {
		return admission.Forbidden(req, err)
	}
	return nil
}

// slice checks that a node creates and deletes only the ResourceSlices of its own devices. For
// other verbs the node authorizer knows the slice's node.
func (r *restriction) slice(obj scheme.Object) error {
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return fmt.Errorf("unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != r.node {
		if r.req.Verb == admission.Create {
			return errors.New("can only create ResourceSlice with the same NodeName as the requesting node")
		}
		return errors.New("can only delete ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}

// certificateRequest checks that a node asks for a certificate of a pod that it runs, by comparing
// the request with the stored objects. A mismatch that a stale cache may cause is an internal error
// rather than a refusal, so that the node retries.
func (r *restriction) certificateRequest(ctx context.Context) error {
	if r.req.Verb != admission.Create {
		return fmt.Errorf("unexpected operation %s", operation(r.req.Verb))
	}
	if r.req.Subresource != "" {
		return fmt.Errorf("unexpected subresource %s", r.req.Subresource)
	}
	asked, ok := r.req.Object.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Object)
	}
	spec := &asked.Spec
	if string(spec.NodeName) != r.node {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", spec.NodeName, r.node)
	}
	own, err := admission.Get[*corev1.Node](ctx, r.objects, "", r.node)
	if err != nil {
		return retryLater("while retrieving node %q named in the PodCertificateRequest: %v", spec.NodeName, err)
	}
	of := fmt.Sprintf("%s/%s", r.req.Namespace, spec.PodName)
	if own.UID != spec.NodeUID {
		return retryLater("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", of, spec.NodeUID, own.UID)
	}
	pod, err := r.lookUp(ctx, spec.PodName)
	if err != nil {
		return retryLater("while retrieving pod %q named in the PodCertificateRequest: %v", of, err)
	}
	if pod.UID != spec.PodUID {
		return retryLater("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", of, spec.PodUID, pod.UID)
	}
	if pod.Spec.NodeName != r.node {
		return fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", of, spec.NodeName)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return fmt.Errorf("pod %q is a mirror pod", of)
	}
	if pod.Spec.ServiceAccountName != spec.ServiceAccountName {
		return fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			of, spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := admission.Get[*corev1.ServiceAccount](ctx, r.objects, r.req.Namespace, spec.ServiceAccountName)
	if err != nil {
		return retryLater("while retrieving service account %q named in the PodCertificateRequest: %v", r.req.Namespace+"/"+spec.ServiceAccountName, err)
	}
	if account.UID != spec.ServiceAccountUID {
		return retryLater("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)",
			of, spec.ServiceAccountUID, account.UID)
	}
	return nil
}

// unknownYet is the error for a request that may become valid a moment later.
type unknownYet struct{ message string }

func (u *unknownYet) Error() string { return u.message }

func retryLater(format string, args ...any) error { return &unknownYet{fmt.Sprintf(format, args...)} }
