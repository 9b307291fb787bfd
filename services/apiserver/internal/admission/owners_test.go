package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	yes := true
	owned := func(uid, version, kind string, blocks *bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "owner", UID: types.UID(uid), BlockOwnerDeletion: blocks})
		}
	}
	set := owned("1", "apps/v1", "ReplicaSet", nil)
	blocking := owned("1", "apps/v1", "ReplicaSet", &yes)
	const (
		cannotDelete = "cannot set an ownerRef on a resource you can't delete: no RBAC policy matched, <nil>"
		cannotBlock  = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no RBAC policy matched, <nil>"
	)
	mayDelete := func(a authz.Attributes) bool {
		return a.Verb == "delete" && a.Resource == "pods" && a.Namespace == "ns" && a.Name == "p"
	}
	mayBlock := func(a authz.Attributes) bool {
		return a.Verb == "update" && a.Group == "apps" && a.Resource == "replicasets" && a.Subresource == "finalizers" && a.Namespace == "ns" && a.Name == "owner"
	}
	mayBlockNodes := func(a authz.Attributes) bool {
		return a.Verb == "update" && a.Resource == "nodes" && a.Subresource == "finalizers" && a.Namespace == ""
	}
	for _, tc := range []struct {
		name string
		req  *Request
		may  func(authz.Attributes) bool
		want string
	}{
		{"create without owners", &Request{Object: pod()}, nil, ""},
		{"create with an owner", &Request{Object: pod(set)}, nil, ""},
		{"create that blocks", &Request{Object: pod(blocking)}, nil, `pods "p" is forbidden: ` + cannotBlock},
		{"create that may block", &Request{Object: pod(blocking)}, mayBlock, ""},
		{"create that blocks a node", &Request{Object: pod(owned("2", "v1", "Node", &yes))}, mayBlockNodes, ""},
		{"create that blocks an unknown kind", &Request{Object: pod(owned("1", "v1", "Thing", &yes))}, mayBlock, `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Thing: no matches for kind "Thing" in version "v1"`},
		{"update that changes nothing", &Request{Verb: Update, Object: pod(blocking), Old: pod(blocking)}, nil, ""},
		{"update that adds an owner", &Request{Verb: Update, Object: pod(set), Old: pod()}, nil, cannotDelete},
		{"update that removes an owner", &Request{Verb: Update, Object: pod(), Old: pod(set)}, nil, cannotDelete},
		{"update with the right to delete", &Request{Verb: Update, Object: pod(set), Old: pod()}, mayDelete, ""},
		{"update that newly blocks", &Request{Verb: Update, Object: pod(blocking), Old: pod(set)}, mayDelete, cannotBlock},
		{"update of an owner that already blocks", &Request{Verb: Update, Object: pod(blocking, owned("2", "v1", "Node", nil)), Old: pod(blocking)}, mayDelete, ""},
		{"a pod's status", &Request{Verb: Update, Object: pod(set), Old: pod(), Subresource: "status"}, nil, ""},
		{"delete", &Request{Verb: Delete, Old: pod(blocking)}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &asked{allow: tc.may}
			_, err := newWorld().try(t, tc.req, a, "OwnerReferencesPermissionEnforcement")
			refused(t, err, tc.want)
			for _, user := range a.by {
				if user != "alice" {
					t.Errorf("the authorizer was asked about %q, want alice", user)
				}
			}
		})
	}
}
