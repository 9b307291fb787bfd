// Package node decides what node agents may do, as Kubernetes' node authorizer does. A node reads
// its own Node and pods, and the objects that those pods refer to. Admission, which sees the
// object, further narrows what a node may write of these.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/podreferences"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// Pods reads the pods of nodes: the feed of pods, whose scopes are nodes.
type Pods interface {
	Cached(namespace, name string) (scheme.Object, bool)
	CachedIn(view fabric.View) []scheme.Object
}

// Config configures an Authorizer.
type Config struct {
	// Pods are the pods of all nodes; required.
	Pods Pods
	// Cached returns an object of another kind from its watch cache. If it is nil, only objects
	// that pods refer to count as a node's own.
	Cached func(kind schema.GroupVersionKind, namespace, name string) (scheme.Object, bool)
	// Rules are what every node may do with resources that don't belong to a node.
	Rules []rbacv1.PolicyRule
	// CatchUp waits, for a short time, until Pods has everything that etcd has; it may be nil. A
	// node may learn of a pod from one apiserver and ask another one, which has not seen the pod
	// yet, for an object that the pod refers to. So the authorizer refuses nothing for want of a
	// pod before Pods has caught up.
	CatchUp func(ctx context.Context) error
}

// Authorizer decides what nodes may do. Any goroutine may use it.
type Authorizer struct {
	cfg Config
}

// New returns an authorizer.
func New(cfg Config) *Authorizer { return &Authorizer{cfg: cfg} }

// Identity returns the node that a user acts as, and whether the user is a node. A member of
// system:nodes whose name is not a node's user name is not a node.
func Identity(user authn.User) (name string, isNode bool) {
	name, ok := strings.CutPrefix(user.Name, authn.NodePrefix)
	if !ok || !slices.Contains(user.Groups, authn.GroupNodes) {
		return "", false
	}
	return name, true
}

// answer is a decision with its reason.
type answer struct {
	decision authz.Decision
	reason   string
	// unrelated marks a refusal because no pod relates the node to the object.
	unrelated bool
}

func allow() answer                         { return answer{decision: authz.Allow} }
func no(reason string) answer               { return answer{reason: reason} }
func nof(format string, args ...any) answer { return no(fmt.Sprintf(format, args...)) }

// Authorize decides for nodes and has no opinion on other users. It never denies.
func (a *Authorizer) Authorize(ctx context.Context, user authn.User, want authz.Attributes) (authz.Decision, string, error) {
	node, isNode := Identity(user)
	if !isNode {
		return authz.NoOpinion, "", nil
	}
	if node == "" {
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", user.Name), nil
	}
	given := a.decide(node, want)
	if given.unrelated && a.cfg.CatchUp != nil && a.cfg.CatchUp(ctx) == nil {
		given = a.decide(node, want)
	}
	return given.decision, given.reason, nil
}

// Rules reports that what a node may do cannot be listed.
func (a *Authorizer) Rules(_ context.Context, user authn.User, _ string) ([]authorizationv1.ResourceRule, []authorizationv1.NonResourceRule, bool, error) {
	if _, isNode := Identity(user); isNode {
		return nil, nil, true, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

func (a *Authorizer) decide(node string, want authz.Attributes) answer {
	if want.IsResource() {
		switch want.Group + "/" + want.Resource {
		case "/secrets":
			return a.readReferred(node, podreferences.Secret, want)
		case "/configmaps":
			return a.readReferred(node, podreferences.ConfigMap, want)
		case "/persistentvolumeclaims":
			if want.Subresource == "status" {
				return a.updateClaimStatus(node, want)
			}
			return a.get(node, podreferences.Claim, want)
		case "/persistentvolumes", "storage.k8s.io/volumeattachments":
			return a.getOwn(node, want)
		case "resource.k8s.io/resourceslices":
			return a.slice(node, want)
		case "certificates.k8s.io/podcertificaterequests":
			return a.certificateRequest(node, want)
		case "resource.k8s.io/resourceclaims":
			return a.get(node, podreferences.ResourceClaim, want)
		case "/serviceaccounts":
			return a.serviceAccount(node, want)
		case "coordination.k8s.io/leases":
			return lease(node, want)
		case "storage.k8s.io/csinodes":
			return csiNode(node, want)
		case "/nodes":
			return ownNode(node, want)
		case "/pods":
			return a.pod(node, want)
		}
	}
	for i := range a.cfg.Rules {
		if rbac.Allows(&a.cfg.Rules[i], want) {
			return allow()
		}
	}
	return no("")
}

// readReferred is for objects that a node may get, list and watch one at a time, by name.
func (a *Authorizer) readReferred(node string, kind podreferences.Kind, want authz.Attributes) answer {
	switch {
	case want.Verb != "get" && want.Verb != "list" && want.Verb != "watch":
		return no("can only read resources of this type")
	case want.Subresource != "":
		return no("cannot read subresource")
	case want.Namespace == "":
		return no("can only read namespaced object of this type")
	}
	return a.referred(node, kind, want)
}

// get is for objects that a node may only get.
func (a *Authorizer) get(node string, kind podreferences.Kind, want authz.Attributes) answer {
	switch {
	case want.Verb != "get":
		return no("can only get individual resources of this type")
	case want.Subresource != "":
		return no("cannot get subresource")
	}
	return a.referred(node, kind, want)
}

func (a *Authorizer) updateClaimStatus(node string, want authz.Attributes) answer {
	if want.Verb != "update" && want.Verb != "patch" {
		return no("can only get/update/patch this type")
	}
	return a.referred(node, podreferences.Claim, want)
}

// referred allows an object that a pod of the node refers to.
func (a *Authorizer) referred(node string, kind podreferences.Kind, want authz.Attributes) answer {
	if want.Name == "" {
		return no("No Object name found")
	}
	if !a.refers(node, kind, want.Namespace, want.Name) {
		return unrelated(node)
	}
	return allow()
}

func unrelated(node string) answer {
	refusal := nof("no relationship found between node '%s' and this object", node)
	refusal.unrelated = true
	return refusal
}

// refers reports whether a pod of the node refers to an object. Mirror pods, which a node creates
// itself, don't count.
func (a *Authorizer) refers(node string, kind podreferences.Kind, namespace, name string) bool {
	for _, obj := range a.cfg.Pods.CachedIn(fabric.View{Scope: node}) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Namespace != namespace || pod.Spec.NodeName != node {
			continue
		}
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			continue
		}
		if !podreferences.Visit(pod, func(k podreferences.Kind, n string) bool { return k != kind || n != name }) {
			return true
		}
	}
	return false
}

// serviceAccount allows reading the service accounts of the node's pods and creating tokens for
// them, and tokens for the account of the node's network parts.
func (a *Authorizer) serviceAccount(node string, want authz.Attributes) answer {
	switch {
	case want.Verb == "get" && want.Subresource == "" && want.Name != "":
	case want.Verb != "create" || want.Name == "":
		return no("can only create tokens for individual service accounts")
	case want.Subresource != "token":
		return no("can only create token subresource of serviceaccount")
	case want.Namespace == nodeapi.NetworkAccountNamespace && want.Name == nodeapi.NetworkAccount:
		return allow() // Admission requires that the token is bound to the node.
	}
	if !a.refers(node, podreferences.ServiceAccount, want.Namespace, want.Name) {
		return unrelated(node)
	}
	return allow()
}

// lease allows the node's own lease. On create its name is not known yet, so admission checks it.
func lease(node string, want authz.Attributes) answer {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, want.Verb):
		return no("can only get, create, update, patch, or delete a node lease")
	case want.Namespace != corev1.NamespaceNodeLease:
		return nof("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case want.Verb != "create" && want.Name != node:
		return no("can only access node lease with the same name as the requesting node")
	}
	return allow()
}

func csiNode(node string, want authz.Attributes) answer {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, want.Verb):
		return no("can only get, create, update, patch, or delete a CSINode")
	case want.Subresource != "":
		return no("cannot authorize CSINode subresources")
	case want.Verb != "create" && want.Name != node:
		return no("can only access CSINode with the same name as the requesting node")
	}
	return allow()
}

// ownNode allows the node's own Node; admission keeps the node from writing others.
func ownNode(node string, want authz.Attributes) answer {
	switch {
	case want.Subresource == "" && slices.Contains([]string{"create", "update", "patch"}, want.Verb),
		want.Subresource == "status" && (want.Verb == "update" || want.Verb == "patch"):
		return allow()
	case want.Subresource != "" || want.Verb != "get" && want.Verb != "list" && want.Verb != "watch":
		return no("")
	case want.Name == "":
		return nof("node '%s' cannot read all nodes, only its own Node object", node)
	case want.Name != node:
		return nof("node '%s' cannot read '%s', only its own Node object", node, want.Name)
	}
	return allow()
}

// pod allows the node's own pods; admission keeps the node from writing others.
func (a *Authorizer) pod(node string, want authz.Attributes) answer {
	switch want.Subresource {
	case "":
		switch want.Verb {
		case "get":
			return a.ownPod(node, want)
		case "list", "watch":
			if onlyOf(node, want) {
				return allow()
			}
			if want.Name != "" {
				return a.ownPod(node, want)
			}
			return no("can only list/watch pods with spec.nodeName field selector")
		case "create", "delete":
			return allow()
		}
	case "status":
		if want.Verb == "update" || want.Verb == "patch" {
			return allow()
		}
	case "eviction":
		if want.Verb == "create" {
			return allow()
		}
	}
	return no("")
}

func (a *Authorizer) ownPod(node string, want authz.Attributes) answer {
	if want.Name == "" {
		return no("No Object name found")
	}
	obj, ok := a.cfg.Pods.Cached(want.Namespace, want.Name)
	if pod, isPod := obj.(*corev1.Pod); !ok || !isPod || pod.Spec.NodeName != node {
		return unrelated(node)
	}
	return allow()
}
