// Package noderestriction is the plugin NodeRestriction. It limits what nodes write to what belongs
// to them.
package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/podreferences"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
)

// restriction is one write of a node that NodeRestriction checks.
type restriction struct {
	objects    admission.Objects
	authorizer authz.Authorizer // may be nil
	req        *admission.Request
	user       authn.User
	node       string
}

// Plugin returns the plugin. Without an authorizer, which may be nil, a node gets tokens only for
// the audiences that its pods name.
func Plugin(objects admission.Objects, authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{Mutate: nodeRestriction(objects, authorizer), Validate: nodeDeletions}
}

// nodeRestriction limits what nodes write to what belongs to them: their Node without its taints
// and most labels, the status and the eviction of their pods, mirror pods, tokens for their pods,
// and their lease. The node authorizer allows these writes in general, since it doesn't see the
// object.
func nodeRestriction(objects admission.Objects, authorizer authz.Authorizer) func(ctx context.Context, req *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		user, _ := authn.UserFrom(ctx)
		name, isNode := node.Identity(user)
		if !isNode {
			return nil
		}
		if name == "" {
			return admission.Forbidden(req, fmt.Errorf("could not determine node from user %q", user.Name))
		}
		r := &restriction{objects: objects, authorizer: authorizer, req: req, user: user, node: name}
		err := r.check(ctx)
		if err == nil || apierrors.IsNotFound(err) {
			return err
		}
		if later := (*unknownYet)(nil); errors.As(err, &later) {
			return apierrors.NewInternalError(later)
		}
		return admission.Forbidden(req, err)
	}
}

// check returns what is wrong. A NotFound error is returned to the client as it is.
func (r *restriction) check(ctx context.Context) error {
	switch r.req.Kind.GroupResource().String() {
	case "pods":
		switch r.req.Subresource {
		case "":
			return r.pod(ctx)
		case "status":
			return r.podStatus()
		case "eviction":
			return r.eviction(ctx)
		}
		return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", r.req.Subresource)
	case "nodes":
		return r.ownNode()
	case "persistentvolumeclaims":
		if r.req.Subresource == "status" {
			return r.claimStatus()
		}
		return errors.New("may only update PVC status")
	case "serviceaccounts":
		if r.req.Verb == admission.Create && r.req.Subresource == "token" {
			return r.token(ctx)
		}
	case "leases.coordination.k8s.io":
		return r.lease()
	case "resourceslices.resource.k8s.io":
		if r.req.Verb == admission.Create {
			return r.slice(r.req.Object)
		}
	case "podcertificaterequests.certificates.k8s.io":
		return r.certificateRequest(ctx)
	case "csinodes.storage.k8s.io":
		if r.name() != r.node {
			return errors.New("can only access CSINode with the same name as the requesting node")
		}
	}
	return nil
}

// name returns the object's name, also on create.
func (r *restriction) name() string {
	if r.req.Verb == admission.Create && r.req.Object != nil {
		return r.req.Object.GetName()
	}
	return r.req.Name
}

func operation(verb admission.Verb) string { return strings.ToUpper(string(verb)) }

func (r *restriction) pod(ctx context.Context) error {
	switch r.req.Verb {
	case admission.Create:
		pod, ok := r.req.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("unexpected type %T", r.req.Object)
		}
		return r.mirrorPod(ctx, pod)
	case admission.Delete:
		pod, err := r.lookUp(ctx, r.req.Name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != r.node {
			return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", r.node)
		}
		return nil
	}
	return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", operation(r.req.Verb), r.node)
}

// mirrorPod checks a pod that a node creates. It represents a pod that the node runs by itself, and
// must not give the node rights on other objects.
func (r *restriction) mirrorPod(ctx context.Context, pod *corev1.Pod) error {
	if _, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; !ok {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, r.node)
	}
	if pod.Spec.NodeName != r.node {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", r.node)
	}
	if err := r.mirrorOwner(ctx, pod.OwnerReferences); err != nil {
		return err
	}
	var refersTo string
	podreferences.Visit(pod, func(kind podreferences.Kind, _ string) bool {
		switch kind {
		case podreferences.ServiceAccount:
			refersTo = "a service account"
		case podreferences.Secret:
			refersTo = "secrets"
		case podreferences.ConfigMap:
			refersTo = "configmaps"
		case podreferences.Claim:
			refersTo = "persistentvolumeclaims"
		case podreferences.ResourceClaim:
			refersTo = "resourceclaims"
		}
		return refersTo == ""
	})
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ClusterTrustBundle != nil }) {
			refersTo = "clustertrustbundles"
		}
	}
	if refersTo != "" {
		return fmt.Errorf("node %q can not create pods that reference %s", r.node, refersTo)
	}
	return nil
}

// mirrorOwner checks that the only owner is the node itself.
func (r *restriction) mirrorOwner(ctx context.Context, owners []metav1.OwnerReference) error {
	if len(owners) > 1 {
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", r.node)
	}
	if len(owners) == 0 || owners[0].APIVersion != "v1" || owners[0].Kind != "Node" || owners[0].Name != r.node {
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", r.node)
	}
	owner := owners[0]
	if owner.Controller == nil || !*owner.Controller {
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", r.node)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", r.node)
	}
	own, err := admission.Get[*corev1.Node](ctx, r.objects, "", r.node)
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("error looking up node %s to verify uid: %w", r.node, err)
	}
	if owner.UID != own.UID {
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", r.node, owner.UID, own.UID)
	}
	return nil
}

// lookUp reads a pod. It reads from etcd if the watch cache doesn't show the pod on the node, since
// the cache may not have seen the binding yet.
func (r *restriction) lookUp(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := admission.Get[*corev1.Pod](ctx, r.objects, r.req.Namespace, name)
	if err == nil && pod.Spec.NodeName != r.node {
		return admission.Live[*corev1.Pod](ctx, r.objects, r.req.Namespace, name)
	}
	return pod, err
}

func (r *restriction) podStatus() error {
	if r.req.Verb != admission.Update {
		return fmt.Errorf("unexpected operation %q", operation(r.req.Verb))
	}
	old, ok := r.req.Old.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Old)
	}
	if old.Spec.NodeName != r.node {
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", r.node)
	}
	pod, ok := r.req.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Object)
	}
	if !labels.Equals(old.Labels, pod.Labels) {
		return fmt.Errorf("node %q cannot update labels through pod status", r.node)
	}
	if !apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) {
		return fmt.Errorf("node %q cannot update resource claim statues", r.node) // Kubernetes' spelling.
	}
	return nil
}

func (r *restriction) eviction(ctx context.Context) error {
	if r.req.Verb != admission.Create {
		return fmt.Errorf("unexpected operation %s", operation(r.req.Verb))
	}
	name := r.req.Name
	if name == "" {
		name = r.req.Object.GetName()
	}
	if name == "" {
		return errors.New("could not determine pod from request data")
	}
	pod, err := r.lookUp(ctx, name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != r.node {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", r.node)
	}
	return nil
}

func (r *restriction) claimStatus() error {
	if r.req.Verb != admission.Update {
		return fmt.Errorf("unexpected operation %q", operation(r.req.Verb))
	}
	old, wasClaim := r.req.Old.(*corev1.PersistentVolumeClaim)
	claim, isClaim := r.req.Object.(*corev1.PersistentVolumeClaim)
	if !wasClaim || !isClaim {
		return fmt.Errorf("unexpected type %T", r.req.Object)
	}
	rest := func(of *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		of = of.DeepCopy()
		of.ResourceVersion, of.ManagedFields = "", nil
		of.Status.Capacity, of.Status.Conditions = nil, nil
		of.Status.AllocatedResourceStatuses, of.Status.AllocatedResources = nil, nil
		return of
	}
	if !apiequality.Semantic.DeepEqual(rest(old), rest(claim)) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", r.node)
	}
	return nil
}

func (r *restriction) ownNode() error {
	if name := r.name(); name != r.node {
		return fmt.Errorf("node %q is not allowed to modify node %q", r.node, name)
	}
	if r.req.Verb == admission.Delete {
		return nil
	}
	own, ok := r.req.Object.(*corev1.Node)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Object)
	}
	if r.req.Verb == admission.Create {
		if own.Spec.ConfigSource != nil { //nolint:staticcheck // Kubernetes still checks it.
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", r.node)
		}
		if len(own.Spec.PodCIDRs) > 0 || own.Spec.PodCIDR != "" {
			return ownCIDRs(r.node)
		}
		if others := foreignLabels(own.Labels, nil); len(others) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", r.node, strings.Join(others, ", "))
		}
		return nil
	}
	old, ok := r.req.Old.(*corev1.Node)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Old)
	}
	switch {
	case own.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(own.Spec.ConfigSource, old.Spec.ConfigSource): //nolint:staticcheck // As above.
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", r.node)
	case own.Spec.PodCIDR != old.Spec.PodCIDR || !slices.Equal(own.Spec.PodCIDRs, old.Spec.PodCIDRs):
		return ownCIDRs(r.node)
	case !apiequality.Semantic.DeepEqual(own.Spec.Taints, old.Spec.Taints):
		return fmt.Errorf("node %q is not allowed to modify taints", r.node)
	case !apiequality.Semantic.DeepEqual(own.OwnerReferences, old.OwnerReferences):
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", r.node)
	}
	if others := foreignLabels(own.Labels, old.Labels); len(others) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(others, ", "))
	}
	return nil
}

// ownCIDRs refuses a node's choice of its pod CIDRs, which Kubernetes allows: the other nodes send it the packets
// for these ranges.
func ownCIDRs(node string) error {
	return fmt.Errorf("node %q is not allowed to set its pod CIDRs", node)
}

// token checks a token request: it must be for a pod of the node, and for an audience that the pod
// asks for.
func (r *restriction) token(ctx context.Context) error {
	asked, ok := r.req.Object.(*authenticationv1.TokenRequest)
	if !ok {
		return fmt.Errorf("unexpected type %T", r.req.Object)
	}
	ref := asked.Spec.BoundObjectRef
	if r.req.Namespace == nodeapi.NetworkAccountNamespace && r.req.Name == nodeapi.NetworkAccount {
		return r.networkToken(asked)
	}
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return errors.New("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := r.lookUp(ctx, ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != pod.UID {
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != r.node {
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return r.audience(ctx, pod, asked.Spec.Audiences)
}

// networkToken requires that a token of the account of the node's network parts is bound to the node, and
// is for the API itself.
func (r *restriction) networkToken(asked *authenticationv1.TokenRequest) error {
	ref := asked.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Node" || ref.Name != r.node:
		return errors.New("node requested token of its network parts that is not bound to the node")
	case len(asked.Spec.Audiences) > 0:
		return errors.New("node requested token of its network parts for other audiences than the API")
	}
	return nil
}

func (r *restriction) audience(ctx context.Context, pod *corev1.Pod, audiences []string) error {
	audience := ""
	switch len(audiences) {
	case 0:
	case 1:
		audience = audiences[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		}) {
			return nil
		}
	}
	if r.authorizer != nil {
		decision, _, err := r.authorizer.Authorize(ctx, r.user, authz.Attributes{
			Verb: "request-serviceaccounts-token-audience", Version: "v1", Resource: audience, Namespace: r.req.Namespace, Name: r.req.Name,
		})
		if decision == authz.Allow {
			return nil
		}
		if err != nil {
			return fmt.Errorf("error validating audience %q: %w", audience, err)
		}
	}
	return fmt.Errorf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, r.user.Name)
}

func (r *restriction) lease() error {
	if r.req.Namespace != corev1.NamespaceNodeLease {
		return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	if r.req.Verb == admission.Create {
		if _, ok := r.req.Object.(*coordinationv1.Lease); !ok {
			return fmt.Errorf("unexpected type %T", r.req.Object)
		}
	}
	if r.name() != r.node {
		return errors.New("can only access node lease with the same name as the requesting node")
	}
	return nil
}
